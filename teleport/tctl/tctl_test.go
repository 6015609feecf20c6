package tctl

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// fake is a tctl that signs. It says how often it was asked.
type fake struct {
	authority *sshtest.Authority
	ttl       time.Duration
	onlyTar   bool // as if /dev/stdout could not be written
	fail      error
	signed    int
	ran       []string
	stdin     string
}

func (f *fake) run(_ context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	f.ran = append(f.ran, strings.Join(args, " "))
	if stdin != nil {
		b, err := io.ReadAll(stdin)
		if err != nil {
			return nil, err
		}
		f.stdin = string(b)
	}
	if args[0] != "auth" {
		return nil, f.fail
	}
	if f.fail != nil {
		return nil, f.fail
	}
	isTar := args[len(args)-1] == "--tar"
	if f.onlyTar && !isTar {
		return []byte("\nThe credentials have been written to /dev/stdout\n"), nil
	}
	f.signed++
	_, file, err := f.authority.Identity(strings.TrimPrefix(args[2], "--user="), time.Now().Add(f.ttl), "root")
	if err != nil || !isTar {
		return append(file, "\nThe credentials have been written to /dev/stdout\n"...), err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "identity", Size: int64(len(file)), Mode: 0o600}), second(w.Write(file)), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func second(_ int, err error) error { return err }

func newFake(t *testing.T) *fake {
	t.Helper()
	a, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return &fake{authority: a, ttl: time.Hour}
}

func TestSign(t *testing.T) {
	for _, onlyTar := range []bool{false, true} {
		f := newFake(t)
		f.onlyTar = onlyTar
		id, err := Tctl{f.run}.Sign(t.Context(), "load-0", time.Hour, "k8s")
		if err != nil || id.User != "load-0" || !strings.Contains(f.ran[0], "--kube-cluster-name=k8s") || !strings.Contains(f.ran[0], "--out=/dev/stdout") {
			t.Errorf("tar %t: %+v, %v, ran %q", onlyTar, id, err, f.ran)
		}
	}
}

func TestEnsure(t *testing.T) {
	f := newFake(t)
	tool := Tctl{f.run}
	if err := tool.EnsureRole(t.Context(), Role{Name: "load", Logins: []string{"root"}, RecordSession: "strict"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: role", "max_session_ttl: 30h0m0s", "default: strict", "- root", "session_tracker", "forward_agent: true"} {
		if !strings.Contains(f.stdin, want) {
			t.Errorf("the role lacks %q:\n%s", want, f.stdin)
		}
	}
	names, err := tool.EnsureUsers(t.Context(), "load", 3, "load")
	if err != nil || len(names) != 3 || names[2] != "load-2" || strings.Count(f.stdin, "kind: user") != 3 {
		t.Errorf("%v, %v:\n%s", names, err, f.stdin)
	}
	if f.ran[1] != "create -f" {
		t.Errorf("ran %q", f.ran)
	}
}

func TestParseNodes(t *testing.T) {
	nodes, err := parseNodes([]byte(`[{"metadata":{"name":"u","labels":{"a":"b"},"expires":"2026-01-02T03:04:05Z"},"spec":{"hostname":"h","use_tunnel":true,"version":"13.0.0-dev"}}]`))
	if err != nil || len(nodes) != 1 || nodes[0].UUID != "u" || nodes[0].Host != "h" || !nodes[0].Tunnel || nodes[0].Labels["a"] != "b" {
		t.Errorf("%+v, %v", nodes, err)
	}
	if nodes, err := parseNodes([]byte("null\n")); err != nil || len(nodes) != 0 {
		t.Errorf("an empty list: %v, %v", nodes, err)
	}
	if _, err := parseNodes([]byte("no nodes")); err == nil {
		t.Error("text was taken for nodes")
	}
}

func TestFailedHidesSecrets(t *testing.T) {
	err := failed([]string{"auth", "sign"}, "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n\x1b[31mERROR: \x1b[0maccess denied\n", errors.New("exit status 1"))
	if text := err.Error(); strings.Contains(text, "abc") || !strings.Contains(text, "access denied") || !strings.Contains(text, "is there such a user?") {
		t.Errorf("got %q", text)
	}
}

func TestWallet(t *testing.T) {
	f := newFake(t)
	folder := filepath.Join(t.TempDir(), "identities")
	w, err := OpenWallet(t.Context(), WalletOptions{Tctl: Tctl{f.run}, Folder: folder, TTL: time.Hour, Users: []string{"load-0", "load-1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range w.Users() {
		info, err := os.Stat(w.Path(user))
		if err != nil || info.Mode().Perm() != 0o600 || w.Get(user).User != user {
			t.Errorf("%s: %v, %v", user, info, err)
		}
	}
	if w.Get("nobody") != nil {
		t.Error("there is an identity of nobody")
	}
	if err := w.Destroy(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	var rekeyed string
	rekey := func(_ context.Context, id *identity.Identity) (*identity.Identity, error) {
		rekeyed = id.User
		return id, nil
	}
	w, err = OpenWallet(t.Context(), WalletOptions{Tctl: Tctl{f.run}, Folder: folder, TTL: time.Hour, Users: []string{"load-0"}, Rekey: rekey})
	if err != nil || rekeyed != "load-0" {
		t.Errorf("rekeyed %q, %v", rekeyed, err)
	}
	if err := w.Destroy(); err != nil {
		t.Error(err)
	}
	f.fail = errors.New("no auth")
	if _, err := OpenWallet(t.Context(), WalletOptions{Tctl: Tctl{f.run}, Folder: folder, TTL: time.Hour, Users: []string{"load-0"}}); err == nil {
		t.Error("a wallet without identities was made")
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Error("a wallet that failed left its folder")
	}
}

func TestWalletRenews(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "identities")
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		w, err := OpenWallet(t.Context(), WalletOptions{Tctl: Tctl{f.run}, Folder: folder, TTL: time.Hour, Users: []string{"load-0"}})
		if err != nil {
			t.Fatal(err)
		}
		first := w.Get("load-0").Expires
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Keep(ctx, slog.New(slog.DiscardHandler)); close(done) }()
		time.Sleep(30 * time.Minute)
		if f.signed != 1 {
			t.Errorf("signed %d times after half the life, want 1", f.signed)
		}
		time.Sleep(15 * time.Minute)
		if !w.Get("load-0").Expires.After(first) || f.signed != 2 {
			t.Errorf("signed %d times after three quarters, want 2", f.signed)
		}
		f.fail = errors.New("the auth is away")
		time.Sleep(42 * time.Minute)
		f.fail = nil
		time.Sleep(2 * time.Minute)
		if w.Get("load-0").Expired(time.Now(), 0) || f.signed != 3 {
			t.Errorf("signed %d times; a renewal that failed was not tried again", f.signed)
		}
		cancel()
		<-done
		if err := w.Destroy(); err != nil {
			t.Error(err)
		}
	})
}
