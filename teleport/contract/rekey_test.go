package contract

import (
	"io"
	"testing"

	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
)

// TestRekey is a user with a dear key who gets himself a cheaper one. Who has a cheap one never asks.
func TestRekey(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1, Env: []string{"STANDIN_KEY_TYPE=rsa"}})
	if !l.id.Dear() {
		t.Fatal("tctl made a key that is cheap already: nothing to try")
	}
	id, err := l.log(t, false).Rekey(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := id.Signer().PublicKey().Type(); got != "ecdsa-sha2-nistp256-cert-v01@openssh.com" {
		t.Errorf("the key is %s", got)
	}
	if id.User != l.id.User || id.Cluster != l.id.Cluster || !id.Allows("root") || id.Expires.After(l.id.Expires) {
		t.Errorf("got %s at %s until %s, of %s until %s", id.User, id.Cluster, id.Expires, l.id.User, l.id.Expires)
	}
	l.id = id
	s := l.open(t, ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{Command: "echo rekeyed"})
	if out, _ := io.ReadAll(s); string(out) != "rekeyed\n" {
		t.Errorf("output %q", out)
	}
	if _, err := l.log(t, false).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
