package tctl

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/flags"
)

// export is `tctl auth export [--type=user|host|tls-host|tls-user]`.
func (t *tool) export(ctx context.Context, args []string) error {
	var kind string
	if _, err := flags.Parse(args, []flags.Flag{{Name: "type", Text: &kind}}); err != nil {
		return err
	}
	all, err := t.remote.Authorities(ctx)
	if err != nil {
		return err
	}
	cluster := t.remote.Identity().Cluster
	hostLine := func() {
		for _, key := range all.HostSSH {
			fmt.Fprintf(t.Out, "@cert-authority *.%s %s type=host\n", cluster, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
		}
	}
	userLine := func() {
		for _, key := range all.UserSSH {
			fmt.Fprintf(t.Out, "cert-authority %s clustername=%s&type=user\n", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), cluster)
		}
	}
	switch kind {
	case "":
		hostLine()
		userLine()
	case "host":
		hostLine()
	case "user", "openssh":
		userLine()
	case "tls-host", "tls":
		_, err = t.Out.Write(all.HostTLSPEM)
	case "tls-user":
		_, err = t.Out.Write(all.UserTLSPEM)
	default:
		return fmt.Errorf("enum value must be one of user,host,tls-host,tls-user, got %q", kind)
	}
	return err
}
