package contract

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// programsEnv names a folder with the programs to try instead of the stand-in.
const programsEnv = "SHAKEDOWN_TELEPORT"

// factor divides the stand-in's intervals of recording; the real one takes its time.
const factor = "STANDIN_TIME_FACTOR=10"

var standin = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "contract")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "standin"), "shakedown.dev/shakedown/standin/cmd/standin")
	if out, err := build.CombinedOutput(); err != nil {
		return folder, fmt.Errorf("build the stand-in: %w\n%s", err, out)
	}
	for _, name := range []string{"teleport", "tctl"} {
		if err := os.Symlink("standin", filepath.Join(folder, name)); err != nil {
			return folder, err
		}
	}
	return folder, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(programsEnv) == "" {
		if folder, _ := standin(); folder != "" {
			os.RemoveAll(folder)
		}
	}
	os.Exit(code)
}

// programs gives the folder with teleport and tctl: the one asked for, or the stand-in, built once and named so.
func programs(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv(programsEnv); folder != "" {
		return folder
	}
	folder, err := standin()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// lab is a cluster, and a user who may do everything that load does.
type lab struct {
	*local.Cluster
	id *identity.Identity
}

const (
	role = "load"
	user = "load-0"
)

func start(t *testing.T, opts local.Options) lab {
	t.Helper()
	opts.Programs = programs(t)
	opts.Env = append(opts.Env, factor)
	opts.Folder = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := local.Start(ctx, opts)
	if err != nil {
		logs(t, opts.Folder)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			logs(t, opts.Folder)
		}
	})
	if err := c.Tctl.EnsureRole(ctx, tctl.Role{Name: role, Logins: []string{"root"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tctl.EnsureUsers(ctx, "load", 2, role); err != nil {
		t.Fatal(err)
	}
	id, err := c.Tctl.Sign(ctx, user, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	return lab{c, id}
}

// logs shows the last of what each process said.
func logs(t *testing.T, folder string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(folder, "*.log"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		t.Logf("%s:\n%s", filepath.Base(f), data[max(0, len(data)-3000):])
	}
}

func (l lab) client(t *testing.T) *ssh.Client {
	t.Helper()
	c, err := ssh.New(ssh.Options{Identity: l.id, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (l lab) proxy() ssh.Proxy { return ssh.Proxy{Address: l.Web} }

// node gives the UUID of the node with that host name.
func (l lab) node(t *testing.T, host string) string {
	t.Helper()
	nodes, err := l.Tctl.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Host == host {
			return n.UUID
		}
	}
	t.Fatalf("no node %s among %v", host, nodes)
	return ""
}

// open opens a session; a node's tunnel may be a moment later than its registration.
func (l lab) open(t *testing.T, target ssh.Target, s ssh.Start) *ssh.Session {
	t.Helper()
	return l.openBy(t, l.client(t), target, s)
}

func (l lab) openBy(t *testing.T, c *ssh.Client, target ssh.Target, s ssh.Start) *ssh.Session {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		session, err := c.Open(t.Context(), l.proxy(), target, s)
		if err == nil {
			t.Cleanup(func() { session.Close() })
			return session
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
