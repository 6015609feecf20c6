package tctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/auth"
	"shakedown.dev/shakedown/standin/flags"
	"shakedown.dev/shakedown/standin/rpc"
)

// create is `tctl create [-f] [FILE]`: every document of the file, or of
// standard input. As in the real one, -f is --force.
func (t *tool) create(ctx context.Context, args []string) error {
	force := false
	rest, err := flags.Parse(args, []flags.Flag{{Name: "force", Short: "f", Switch: &force}})
	if err != nil {
		return err
	}
	source, name := t.In, ""
	if len(rest) > 0 {
		name = rest[0]
	}
	if name != "" && name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		source = f
	}
	b, err := io.ReadAll(source)
	if err != nil {
		return err
	}
	docs, err := auth.SplitYAML(b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(docs) == 0 {
		return errors.New("no resources found, empty input?")
	}
	for _, doc := range docs {
		if err := t.createOne(ctx, doc, force); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) createOne(ctx context.Context, doc []byte, force bool) error {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return fmt.Errorf("resource: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	existed := t.exists(ctx, head.Kind, head.Metadata.Name)
	req := &rpc.Resource{Kind: head.Kind, Force: force || head.Kind == "token", Items: [][]byte{doc}}
	if _, err := rpc.Call[rpc.Empty](ctx, t.remote.Conn(), "CreateResource", req); err != nil {
		if status.Code(err) == codes.AlreadyExists {
			return fmt.Errorf("%w, use -f or --force flag to overwrite", plain(err))
		}
		return err
	}
	verb := "created"
	if existed {
		verb = "updated"
	}
	switch strings.ToLower(head.Kind) {
	case "role":
		fmt.Fprintf(t.Out, "role '%s' has been %s\n", head.Metadata.Name, verb)
	case "user":
		fmt.Fprintf(t.Out, "user %q has been %s\n", head.Metadata.Name, verb)
	}
	return nil
}

func (t *tool) exists(ctx context.Context, kind, name string) bool {
	_, err := rpc.Call[rpc.Resource](ctx, t.remote.Conn(), "GetResources", &rpc.Resource{Kind: kind, Name: name})
	return err == nil
}

// get is `tctl get KIND[/NAME][,KIND…] [--format=yaml|json]`.
func (t *tool) get(ctx context.Context, args []string) error {
	format := "yaml"
	rest, err := flags.Parse(args, []flags.Flag{{Name: "format", Text: &format}, {Name: "with-secrets", Switch: new(bool)}})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("required argument 'resource type/resource name' not provided")
	}
	if format != "yaml" && format != "json" {
		return badFormat(format, "yaml", "json")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var all []json.RawMessage
	for _, ref := range strings.Split(rest[0], ",") {
		kind, name, _ := strings.Cut(ref, "/")
		found, err := rpc.Call[rpc.Resource](ctx, t.remote.Conn(), "GetResources", &rpc.Resource{Kind: kind, Name: name})
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			all = append(all, item)
		}
	}
	if format == "json" {
		if all == nil {
			all = []json.RawMessage{}
		}
		return t.print("json", all)
	}
	for i, item := range all {
		if i > 0 {
			fmt.Fprintln(t.Out, "---")
		}
		if err := t.print("yaml", item); err != nil {
			return err
		}
	}
	return nil
}

// rm is `tctl rm KIND/NAME`.
func (t *tool) rm(ctx context.Context, args []string) error {
	rest, err := flags.Parse(args, nil)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("required argument 'resource type/resource name' not provided")
	}
	kind, name, _ := strings.Cut(rest[0], "/")
	if name == "" {
		return errors.New("provide a full resource name to delete, for example:\n$ tctl rm cluster/east")
	}
	if err := t.delete(ctx, kind, name); err != nil {
		return err
	}
	if kind == "node" {
		fmt.Fprintf(t.Out, "node %v has been deleted\n", name)
		return nil
	}
	fmt.Fprintf(t.Out, "%s %q has been deleted\n", kind, name)
	return nil
}

func (t *tool) delete(ctx context.Context, kind, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := rpc.Call[rpc.Empty](ctx, t.remote.Conn(), "DeleteResource", &rpc.Resource{Kind: kind, Name: name})
	return err
}

// list reads every resource of a kind into a slice of T.
func list[T any](ctx context.Context, t *tool, kind string) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := rpc.Call[rpc.Resource](ctx, t.remote.Conn(), "GetResources", &rpc.Resource{Kind: kind})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(found.Items))
	for i, item := range found.Items {
		if err := json.Unmarshal(item, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return out, nil
}
