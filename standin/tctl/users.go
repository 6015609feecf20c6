package tctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/flags"
	"shakedown.dev/shakedown/standin/rpc"
)

// usersAdd is `tctl users add NAME --roles=… [--logins=…]`. The link it prints
// leads nowhere: the stand-in has no web UI, and `auth sign` needs no invite.
func (t *tool) usersAdd(ctx context.Context, args []string) error {
	var roles, logins, kubeGroups, kubeUsers []string
	ttl, format := time.Hour, "text"
	ignored := []string{}
	rest, err := flags.Parse(args, []flags.Flag{
		{Name: "roles", List: &roles, Required: true}, {Name: "logins", List: &logins},
		{Name: "kubernetes-groups", List: &kubeGroups}, {Name: "kubernetes-users", List: &kubeUsers},
		{Name: "windows-logins", List: &ignored}, {Name: "db-users", List: &ignored}, {Name: "db-names", List: &ignored},
		{Name: "ttl", Duration: &ttl}, {Name: "format", Text: &format},
	})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("required argument 'account' not provided")
	}
	user, err := types.NewUser(rest[0])
	if err != nil {
		return err
	}
	user.SetRoles(flatten(roles))
	user.SetTraits(map[string][]string{
		"logins": flatten(logins), "kubernetes_groups": flatten(kubeGroups), "kubernetes_users": flatten(kubeUsers),
	})
	doc, err := json.Marshal(user)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := rpc.Call[rpc.Empty](ctx, t.remote.Conn(), "CreateResource", &rpc.Resource{Kind: "user", Items: [][]byte{doc}}); err != nil {
		return err
	}
	host := t.proxyAddr(ctx)
	url := fmt.Sprintf("https://%s/web/invite/%s", host, strings.ReplaceAll(uuid.NewString(), "-", ""))
	if format == "json" {
		return t.print("json", map[string]any{"kind": "user_token", "spec": map[string]any{"user": rest[0], "url": url}})
	}
	fmt.Fprintf(t.Out, "User %q has been created but requires a password. Share this URL with the user to complete user setup, link is valid for %s:\n%s\n\n", rest[0], short(ttl), url)
	fmt.Fprintf(t.Out, "NOTE: Make sure %s points at a Teleport proxy which users can access.\n", host)
	return nil
}

// short writes 1h instead of 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// proxyAddr is the public address of a proxy, or what the real one prints when
// there is none.
func (t *tool) proxyAddr(ctx context.Context) string {
	servers, err := t.remote.Servers(ctx, types.KindProxy)
	if err == nil {
		for _, s := range servers {
			if addr := s.GetPublicAddr(); addr != "" {
				return addr
			}
		}
	}
	return "<proxyhost>:3080"
}

// usersList is `tctl users ls`.
func (t *tool) usersList(ctx context.Context, args []string) error {
	format := "text"
	if _, err := flags.Parse(args, []flags.Flag{{Name: "format", Text: &format}}); err != nil {
		return err
	}
	users, err := list[types.UserV2](ctx, t, "user")
	if err != nil {
		return err
	}
	if format != "text" {
		return t.print("json", users)
	}
	if len(users) == 0 {
		fmt.Fprintln(t.Out, "No users found")
		return nil
	}
	var rows [][]string
	for _, u := range users {
		rows = append(rows, []string{u.GetName(), strings.Join(u.GetRoles(), ",")})
	}
	err = t.table([]string{"User", "Roles"}, rows)
	fmt.Fprintln(t.Out)
	return err
}

// usersRemove is `tctl users rm NAME[,NAME…]`.
func (t *tool) usersRemove(ctx context.Context, args []string) error {
	rest, err := flags.Parse(args, nil)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("required argument 'logins' not provided")
	}
	for _, name := range strings.Split(rest[0], ",") {
		if err := t.delete(ctx, "user", name); err != nil {
			return err
		}
		fmt.Fprintf(t.Out, "User %q has been deleted\n", name)
	}
	return nil
}
