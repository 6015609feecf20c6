package apitest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/client"
	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
)

// cluster is a stand-in's auth, run as a process, with two users.
type cluster struct {
	dir, authAddr       string
	webAddr, tunnelAddr string
	identity, powerless string
	bin                 string
	admin               *client.Client
}

// build makes the program once; STANDIN_BIN names one that is there.
var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("STANDIN_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "standin-apitest-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "standin")
	cmd := exec.Command("go", "build", "-o", bin, "./standin/cmd/standin")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the stand-in: %w\n%s", err, out)
	}
	return bin, nil
})

func startCluster(t *testing.T) *cluster { return startWith(t, "multiplex", "no") }

// startWith starts an auth, and a proxy in a listener mode if it is wanted.
func startWith(t *testing.T, mode, proxy string) *cluster {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	free := freeAddrs(t, 5)
	c := &cluster{dir: t.TempDir(), bin: bin, authAddr: free[0], webAddr: free[1], tunnelAddr: free[2]}
	listen, diag := free[3], free[4]
	c.write(t, "teleport.yaml", fmt.Sprintf(`version: v3
teleport: {nodename: api, data_dir: %s}
auth_service: {enabled: yes, listen_addr: %q, cluster_name: api.example.com, proxy_listener_mode: %s}
proxy_service: {enabled: %s, web_listen_addr: %q, tunnel_listen_addr: %q, listen_addr: %q, public_addr: %q, tunnel_public_addr: %q}
ssh_service: {enabled: no}
`, filepath.Join(c.dir, "data"), c.authAddr, mode, proxy, c.webAddr, c.tunnelAddr, listen, c.webAddr, c.tunnelAddr))
	cmd := exec.Command(bin, "teleport", "start", "-c", filepath.Join(c.dir, "teleport.yaml"), "--diag-addr="+diag)
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c.waitReady(t, diag)
	c.write(t, "roles.yaml", roles)
	c.tctl(t, "create", filepath.Join(c.dir, "roles.yaml"))
	c.identity, c.powerless = c.user(t, "load"), c.user(t, "powerless")
	c.admin = connect(t, c, filepath.Join(c.dir, "data", "proc", "Admin.id"))
	return c
}

const roles = `kind: role
version: v5
metadata: {name: load}
spec:
  allow:
    logins: [root]
    node_labels: {'*': '*'}
    rules: [{resources: [event, session], verbs: [list, read]}]
---
kind: role
version: v5
metadata: {name: powerless}
spec:
  allow: {logins: [root], node_labels: {'*': '*'}}
`

func (c *cluster) user(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(c.dir, name+".id")
	c.tctl(t, "users", "add", name, "--roles="+name)
	c.tctl(t, "auth", "sign", "--user="+name, "--format=file", "-o", path)
	return path
}

func (c *cluster) tctl(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"tctl", "-c", filepath.Join(c.dir, "teleport.yaml")}, args...)
	if out, err := exec.Command(c.bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (c *cluster) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) waitReady(t *testing.T, diag string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if resp, err := http.Get("http://" + diag + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing to wait on
	}
	log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	t.Fatalf("not ready in time\n%s", log)
}

// freeAddrs finds n addresses of loopback, no two alike. They are below the ports that the system gives to clients: a
// connection of anybody's could take one of those before it is listened on. (internal/loopback, which this module
// cannot reach.)
func freeAddrs(t *testing.T, n int) (out []string) {
	t.Helper()
	for range 1000 {
		if len(out) == n {
			return out
		}
		lis, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)))
		if err != nil {
			continue
		}
		defer lis.Close()
		out = append(out, lis.Addr().String())
	}
	t.Fatalf("found %d free ports of %d", len(out), n)
	return nil
}

func sid(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

func (c *cluster) emit(t *testing.T, event events.AuditEvent) {
	t.Helper()
	if err := c.admin.EmitAuditEvent(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

// record makes a synchronous recording of n events with the real client.
func (c *cluster) record(t *testing.T, sid string, n int) {
	t.Helper()
	stream, err := c.admin.CreateAuditStream(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		event := &events.SessionPrint{Metadata: events.Metadata{Type: "print", Index: int64(i), Time: time.Now().UTC()}, Data: []byte("line")}
		if err := stream.EmitAuditEvent(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stream.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the stream did not end")
	}
}

func (c *cluster) track(t *testing.T, sid string, expires time.Time) {
	t.Helper()
	tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{SessionID: sid, Kind: "ssh", Expires: expires.UTC(), State: types.SessionState_SessionStateRunning})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.CreateSessionTracker(t.Context(), tracker); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) announce(t *testing.T, name string) {
	t.Helper()
	server, err := types.NewServer(name, types.KindNode, types.ServerSpecV2{Hostname: "host", Addr: "127.0.0.1:1", Version: "13.0.0-standin"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.UpsertNode(t.Context(), server); err != nil {
		t.Fatal(err)
	}
}

func listNodes(limit int32) proto.ListResourcesRequest {
	return proto.ListResourcesRequest{ResourceType: types.KindNode, Namespace: "default", Limit: limit}
}
