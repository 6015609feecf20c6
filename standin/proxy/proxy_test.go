package proxy

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/sshutil"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
	"shakedown.dev/shakedown/standin/tunnel"
)

func TestShellThroughTunnel(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo echo ready; cat")
	s.say(r, "hello", "hello")
	if got := testutil.ToFloat64(r.proxy.router.sessions); got != 1 {
		t.Errorf("proxy counts %v sessions, want 1", got)
	}
	s.in.Close()
	if err := s.Wait(); err != nil {
		t.Fatalf("session ended with %v", err)
	}
	r.eventually("six events", func() bool { return len(r.auth.Events()) == 6 })
	var codes []string
	for _, e := range r.auth.Events() {
		codes = append(codes, e.GetCode())
	}
	// The upload comes whenever the uploader looks, also before the last events.
	codes = slices.DeleteFunc(codes, func(c string) bool { return c == "T2005I" })
	if got := strings.Join(codes, " "); got != "T2000I T3002I T2006I T2003I T2004I" {
		t.Errorf("audit codes %s", got)
	}
	if n := r.auth.Trackers(types.SessionState_SessionStateTerminated); n != 1 {
		t.Errorf("%d terminated trackers, want 1", n)
	}
}

func TestRealShell(t *testing.T) {
	r := newRig(t)
	s := r.open("")
	s.say(r, "echo host=$SSH_TELEPORT_HOST_UUID cluster=$SSH_TELEPORT_CLUSTER_NAME user=$SSH_TELEPORT_USER client=${SSH_CLIENT%% *}",
		"host="+nodeUUID+" cluster=main user=alice client=127.0.0.1")
	if err := s.WindowChange(40, 132); err != nil {
		t.Fatal(err)
	}
	// Nothing orders a request of a channel and what is typed on it, so the first answers may still have the old size.
	for n := 0; !strings.Contains(s.out.String(), "40 132"); n++ {
		if n == 100 {
			t.Fatalf("the new size was never seen: %s", s.out)
		}
		s.say(r, fmt.Sprintf("stty size; echo asked-$((%d))", n), fmt.Sprintf("asked-%d", n))
	}
	io.WriteString(s.in, "exec sh -c 'exit 7'\n")
	if err := s.Wait(); err == nil || !strings.Contains(err.Error(), "exited with status 7") {
		t.Fatalf("session ended with %v, want status 7", err)
	}
}

func TestSignalEndsCommand(t *testing.T) {
	r := newRig(t)
	s := r.open("sleep 60")
	if err := s.Signal(ssh.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err == nil || !strings.Contains(err.Error(), "TERM") {
		t.Fatalf("session ended with %v, want signal TERM", err)
	}
}

func TestClientAddressReachesNode(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo cat")
	r.eventually("start event", func() bool { return len(r.auth.Events("session.start")) == 1 })
	got := r.auth.Events("session.start")[0].(*events.SessionStart).RemoteAddr
	if want := s.outer.LocalAddr().String(); got != want {
		t.Errorf("session.start has remote address %s, want the client's %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.startNode("bbbbbbbb-0000-4000-8000-000000000002", "web-1")
	outer, err := r.dialProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	const gone = "bbbbbbbb-0000-4000-8000-000000000009"
	stale := &types.ServerV2{Kind: types.KindNode, Version: types.V2, Metadata: types.Metadata{Name: gone}, Spec: types.ServerSpecV2{Hostname: "gone", UseTunnel: true}}
	if err := r.proxy.env.Auth.UpsertServer(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ why, target, want string }{
		{"a UUID nobody has", "cccccccc-0000-4000-8000-000000000001:0", "unable to locate node matching UUID-like target"},
		{"a hostname two nodes have", "web-1:0", "err-node-is-ambiguous"},
		{"a node that is listed and has no tunnel here", gone + ":0", "no tunnel connection found: no node reverse tunnel for " + gone + ".main found"},
		{"another cluster", nodeUUID + ":0@other", `unknown cluster "other"`},
		{"no port", "web", "expected 'proxy:host:port@cluster'"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			var err error
			r.eventually("the expected reason", func() bool { // the directory follows the auth
				_, err = r.dialNode(outer, tc.target)
				return err == nil || strings.Contains(err.Error(), tc.want)
			})
			if err == nil {
				t.Fatal("was let through")
			}
		})
	}
	if got := testutil.ToFloat64(r.proxy.router.failed); got < 3 {
		t.Errorf("failed_connect_to_node_attempts_total is %v, want at least 3", got)
	}
}

func TestMostRecentRouting(t *testing.T) {
	r := newRig(t)
	const newer = "bbbbbbbb-0000-4000-8000-000000000002"
	time.Sleep(10 * time.Millisecond) // the later expiry
	r.startNode(newer, "web-1")
	r.auth.With(func(a *sshtest.Auth) { a.Config.RoutingStrategy = "most_recent" })
	if err := r.proxy.cluster.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	server, err := r.proxy.router.lookup("web-1", "0")
	if err != nil || server.GetName() != newer {
		t.Fatalf("routed to %v, %v; want the node announced last", server, err)
	}
}

func TestForeignUserIsRefused(t *testing.T) {
	r := newRig(t)
	r.user = sshtest.NewCA(t).User("mallory", []string{r.login}, "load")
	if _, err := r.dialProxy(); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Fatalf("error %v", err)
	}
	r.eventually("audit event of the refusal", func() bool { return len(r.auth.Events("auth")) == 1 })
}

func TestLoginNotInRoleIsRefusedByNode(t *testing.T) {
	r := newRig(t)
	r.user = r.auth.Users.User("alice", []string{r.login, "postgres"}, "load")
	outer, err := r.dialProxy()
	if err != nil {
		t.Fatal(err)
	}
	r.login = "postgres"
	if _, err := r.dialNode(outer, nodeUUID+":0"); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Fatalf("error %v", err)
	}
}

func TestClusterDetailsAndKeepAlive(t *testing.T) {
	r := newRig(t)
	outer, err := r.dialProxy()
	if err != nil {
		t.Fatal(err)
	}
	ok, payload, err := outer.SendRequest(sshutil.ClusterDetailsRequest, true, nil)
	var details sshutil.ClusterDetails
	if err != nil || !ok || ssh.Unmarshal(payload, &details) != nil || details.RecordingProxy {
		t.Errorf("cluster details: %v, %v, %+v", ok, err, details)
	}
	if ok, _, err := outer.SendRequest("keepalive@openssh.com", true, nil); err != nil || !ok {
		t.Errorf("keep-alive answered %v, %v", ok, err)
	}
}

func TestConnectionLimitPerAddress(t *testing.T) {
	r := newRig(t, func(_ *rig, cfg *config.Config) { cfg.Global.Limits.MaxConnections = 3 }) // the node's tunnel is one
	var held []*ssh.Client
	var refused error
	for range 4 {
		c, err := r.dialProxy()
		if err != nil {
			refused = err
			break
		}
		held = append(held, c)
	}
	if refused == nil || len(held) != 2 {
		t.Fatalf("%d connections let in beside the tunnel, want 2", len(held))
	}
	held[0].Close()
	r.eventually("room again", func() bool { _, err := r.dialProxy(); return err == nil })
}

func TestPingAndFind(t *testing.T) {
	r := newRig(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, path := range []string{"/webapi/ping", "/webapi/find"} {
		resp, err := client.Get("https://" + r.proxy.addrs.web + path)
		if err != nil {
			t.Fatal(err)
		}
		var got tunnel.PingResponse
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !strings.Contains(got.ServerVersion, "standin") || got.ClusterName != "main" || got.Proxy.SSH.TunnelListenAddr != r.proxy.addrs.tunnel {
			t.Errorf("%s says %+v", path, got)
		}
		if hasAuth := got.Auth != nil; hasAuth != (path == "/webapi/ping") {
			t.Errorf("%s has auth settings: %v", path, hasAuth)
		}
	}
}

func TestMultiplexNeedsOnlyTheWebPort(t *testing.T) {
	r := newRig(t, func(r *rig, _ *config.Config) {
		r.auth.With(func(a *sshtest.Auth) { a.Config.ListenerMode = "multiplex" })
	})
	if r.proxy.addrs.ssh != "" || r.proxy.addrs.tunnel != "" {
		t.Errorf("separate ports are open: %+v", r.proxy.addrs)
	}
	s := r.open("standin-echo cat")
	s.say(r, "hello", "hello")
}

func TestRouteOf(t *testing.T) {
	for _, tc := range []struct {
		why, sni  string
		protocols []string
		want      route
		err       bool
	}{
		{why: "no protocol is HTTP", want: routeWeb},
		{why: "browsers", protocols: []string{"h2", "http/1.1"}, want: routeWeb},
		{why: "SSH", protocols: []string{"teleport-proxy-ssh"}, want: routeSSH},
		{why: "agents", protocols: []string{"teleport-reversetunnelv2", "teleport-reversetunnel"}, want: routeTunnel},
		{why: "the auth's own TLS", sni: "6d61696e.teleport.cluster.local", protocols: []string{"teleport-auth@6d61696e.teleport.cluster.local", "h2"}, want: routeAuth},
		{why: "Kubernetes by name wins over protocols", sni: "kube-teleport-proxy-alpn.example.com", protocols: []string{"h2"}, want: routeKube},
		{why: "the older name", sni: "kube.example.com", want: routeKube},
		{why: "unknown protocols only", protocols: []string{"spdy/1"}, err: true},
	} {
		t.Run(tc.why, func(t *testing.T) {
			got, err := routeOf(tc.sni, tc.protocols)
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("route %d, error %v", got, err)
			}
		})
	}
}
