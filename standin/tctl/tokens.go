package tctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"google.golang.org/protobuf/types/known/emptypb"

	"shakedown.dev/shakedown/standin/auth"
	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/flags"
)

// tokensAdd is `tctl tokens add --type=node [--ttl] [--value] [--format]`.
func (t *tool) tokensAdd(ctx context.Context, args []string) error {
	var kind, value, labels, format string
	ttl := 30 * time.Minute
	if _, err := flags.Parse(args, []flags.Flag{
		{Name: "type", Text: &kind, Required: true}, {Name: "value", Text: &value}, {Name: "labels", Text: &labels},
		{Name: "ttl", Duration: &ttl}, {Name: "format", Text: &format},
	}); err != nil {
		return err
	}
	roles, err := types.ParseTeleportRoles(kind)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := t.remote.API().GenerateToken(ctx, &proto.GenerateTokenRequest{Roles: roles, TTL: proto.Duration(ttl), Token: value})
	if err != nil {
		return err
	}
	switch format {
	case "json", "yaml":
		return t.print(format, map[string]any{"token": resp.Token, "roles": roles, "expires": time.Now().Add(ttl)})
	case "text":
		fmt.Fprintln(t.Out, resp.Token)
		return nil
	case "":
		return t.invite(ctx, resp.Token, roles, ttl)
	}
	return badFormat(format, "text", "json", "yaml")
}

func (t *tool) invite(ctx context.Context, token string, roles types.SystemRoles, ttl time.Duration) error {
	servers, err := t.remote.Servers(ctx, types.KindAuthServer)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return errors.New("this cluster has no auth servers")
	}
	pin, err := t.pin(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, `The invite token: %[1]s
This token will expire in %[2]d minutes.

Run this on the new node to join the cluster:

> teleport start \
   --roles=%[3]s \
   --token=%[1]s \
   --ca-pin=%[4]s \
   --auth-server=%[5]s

Please note:

  - This invitation token will expire in %[2]d minutes
  - %[5]s must be reachable from the new node
`, token, int(ttl.Minutes()), strings.ToLower(roles.String()), pin, servers[0].GetAddr())
	return nil
}

func (t *tool) pin(ctx context.Context) (string, error) {
	resp, err := t.remote.API().GetClusterCACert(ctx, &emptypb.Empty{})
	if err != nil {
		return "", err
	}
	return ca.PinPEM(resp.TLSCA)
}

// tokensList is `tctl tokens ls`.
func (t *tool) tokensList(ctx context.Context, args []string) error {
	var format string
	if _, err := flags.Parse(args, []flags.Flag{{Name: "format", Text: &format}}); err != nil {
		return err
	}
	tokens, err := list[auth.Token](ctx, t, "token")
	if err != nil {
		return err
	}
	if len(tokens) == 0 {
		fmt.Fprintln(t.Out, "No active tokens found.")
		return nil
	}
	expiry := func(k auth.Token) time.Time {
		if k.Metadata.Expires == nil {
			return time.Time{}
		}
		return *k.Metadata.Expires
	}
	slices.SortStableFunc(tokens, func(a, b auth.Token) int { return cmp.Compare(expiry(a).Unix(), expiry(b).Unix()) })
	switch format {
	case "json", "yaml":
		return t.print(format, tokens)
	case "text":
		for _, k := range tokens {
			fmt.Fprintln(t.Out, k.Metadata.Name)
		}
		return nil
	}
	var rows [][]string
	for _, k := range tokens {
		when := "never"
		if at := expiry(k); !at.IsZero() {
			when = fmt.Sprintf("%s (%s)", at.Format(time.RFC822), time.Until(at).Round(time.Second))
		}
		rows = append(rows, []string{k.Metadata.Name, strings.Join(k.Spec.Roles, ","), "", when})
	}
	return t.table([]string{"Token", "Type", "Labels", "Expiry Time (UTC)"}, rows)
}

// tokensRemove is `tctl tokens rm TOKEN`.
func (t *tool) tokensRemove(ctx context.Context, args []string) error {
	rest, err := flags.Parse(args, nil)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("Need an argument: token")
	}
	if err := t.delete(ctx, "token", rest[0]); err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "Token %s has been deleted\n", rest[0])
	return nil
}
