package tctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/flags"
)

// nodesList is `tctl nodes ls [--format=text|json|yaml]`.
func (t *tool) nodesList(ctx context.Context, args []string) error {
	format, namespace, search, query := "text", "", "", ""
	verbose := false
	rest, err := flags.Parse(args, []flags.Flag{
		{Name: "format", Text: &format}, {Name: "verbose", Short: "v", Switch: &verbose}, {Name: "namespace", Text: &namespace},
		{Name: "search", Text: &search}, {Name: "query", Text: &query},
	})
	if err != nil {
		return err
	}
	if query != "" {
		return fmt.Errorf("--query is not imitated by the stand-in, use labels or --search")
	}
	req := &proto.ListResourcesRequest{ResourceType: types.KindNode, Limit: 1000, Labels: map[string]string{}, SearchKeywords: flatten([]string{search})}
	for _, pair := range flatten(rest) {
		key, value, _ := strings.Cut(pair, "=")
		req.Labels[key] = value
	}
	nodes, err := t.nodes(ctx, req)
	if err != nil {
		return err
	}
	return t.servers(format, nodes)
}

func (t *tool) nodes(ctx context.Context, req *proto.ListResourcesRequest) ([]*types.ServerV2, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := []*types.ServerV2{}
	for {
		page, err := t.remote.API().ListResources(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Resources {
			nodes = append(nodes, r.GetNode())
		}
		if page.NextKey == "" {
			return nodes, nil
		}
		req.StartKey = page.NextKey
	}
}

func (t *tool) servers(format string, servers []*types.ServerV2) error {
	switch format {
	case "json", "yaml":
		return t.print(format, servers)
	case "text":
	default:
		return badFormat(format, "text", "json", "yaml")
	}
	var rows [][]string
	for _, s := range servers {
		rows = append(rows, []string{s.GetHostname(), s.GetName(), s.GetAddr(), labels(s.GetAllLabels()), s.GetTeleportVersion()})
	}
	return t.table([]string{"Host", "UUID", "Public Address", "Labels", "Version"}, rows)
}

func labels(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, ",")
}

// proxies is `tctl proxy ls`.
func (t *tool) proxies(ctx context.Context, args []string) error {
	format := "text"
	if _, err := flags.Parse(args, []flags.Flag{{Name: "format", Text: &format}}); err != nil {
		return err
	}
	servers, err := list[*types.ServerV2](ctx, t, "proxy")
	if err != nil {
		return err
	}
	return t.servers(format, servers)
}

// inventory is `tctl inventory ls`.
func (t *tool) inventory(ctx context.Context, args []string) error {
	if _, err := flags.Parse(args, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sum, err := t.remote.API().GetInventoryStatus(ctx, &proto.InventoryStatusRequest{Connected: true})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, h := range sum.Connected {
		var services []string
		for _, s := range h.Services {
			services = append(services, string(s))
		}
		rows = append(rows, []string{h.ServerID, strings.Join(services, ","), h.Version})
	}
	return t.table([]string{"Server ID", "Services", "Version"}, rows)
}

// status is `tctl status`.
func (t *tool) status(ctx context.Context, args []string) error {
	if _, err := flags.Parse(args, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ping, err := t.remote.API().Ping(ctx, &proto.PingRequest{})
	if err != nil {
		return err
	}
	pin, err := t.pin(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"Cluster", ping.ClusterName}, {"Version", ping.ServerVersion}}
	for _, kind := range []string{"host", "user"} {
		rows = append(rows, []string{kind + " CA ", "never updated"})
	}
	return t.table(nil, append(rows, []string{"CA pin", pin}))
}
