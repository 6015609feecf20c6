package contract

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
)

// TestSessions is what an SSH client finds on the way through the proxy.
func TestSessions(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1, Direct: true})
	node := l.node(t, "node-0")
	l.open(t, ssh.Target{Node: node}, ssh.Start{Command: "true"}) // the tunnel is up
	t.Run("a command's output and status come back", func(t *testing.T) {
		s := l.open(t, ssh.Target{Node: node}, ssh.Start{Command: "echo out; exit 3"})
		out, err := io.ReadAll(s)
		if string(out) != "out\n" || err != nil {
			t.Errorf("output %q, %v", out, err)
		}
		if end := s.End(t.Context()); !end.Exited || end.Status != 3 {
			t.Errorf("end %+v, want status 3", end)
		}
	})
	t.Run("a node can be named by its host name", func(t *testing.T) {
		s := l.open(t, ssh.Target{Node: "node-0"}, ssh.Start{Command: "true"})
		if _, err := io.ReadAll(s); err != nil {
			t.Error(err)
		}
	})
	t.Run("a terminal answers, and tells its session id", func(t *testing.T) {
		terminal(t, l, node)
	})
	t.Run("both hops answer keep-alives", func(t *testing.T) {
		s := l.open(t, ssh.Target{Node: node}, ssh.Start{PTY: true})
		for _, hop := range []ssh.Hop{ssh.HopProxy, ssh.HopNode} {
			if _, err := s.Conn().Keepalive(t.Context(), hop); err != nil {
				t.Errorf("%s: %v", hop, err)
			}
		}
	})
	t.Run("the proxy tells that it does not record", func(t *testing.T) {
		s := l.open(t, ssh.Target{Node: node}, ssh.Start{PTY: true})
		if recording, err := s.Conn().RecordingProxy(); recording || err != nil {
			t.Errorf("got %t, %v", recording, err)
		}
	})
	t.Run("many sessions share a connection", func(t *testing.T) { shared(t, l, node) })
	t.Run("a node that listens can be dialled beside the proxy", func(t *testing.T) {
		s, err := l.client(t).OpenDirect(t.Context(), l.Direct, l.node(t, "direct"), ssh.Target{}, ssh.Start{Command: "echo direct"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if out, _ := io.ReadAll(s); string(out) != "direct\n" {
			t.Errorf("output %q", out)
		}
	})
	t.Run("a node that listens is reached through the proxy too", func(t *testing.T) {
		s := l.open(t, ssh.Target{Node: l.node(t, "direct")}, ssh.Start{Command: "echo routed"})
		if out, _ := io.ReadAll(s); string(out) != "routed\n" {
			t.Errorf("output %q", out)
		}
	})
}

func terminal(t *testing.T, l lab, node string) {
	s := l.open(t, ssh.Target{Node: node}, ssh.Start{PTY: true})
	if id := sessionID(t, s); id == "" {
		t.Error("no session id")
	}
	fmt.Fprintln(s, "echo $SSH_TELEPORT_USER/$SSH_TELEPORT_CLUSTER_NAME/$SSH_TELEPORT_HOST_UUID/")
	want := regexp.MustCompile(user + "/" + regexp.QuoteMeta(l.Name) + "/" + node + "/")
	expect(t, s, want)
	fmt.Fprintln(s, "exit 4")
	_, _ = io.Copy(io.Discard, s)
	if end := s.End(t.Context()); !end.Exited || end.Status != 4 {
		t.Errorf("end %+v, want status 4", end)
	}
}

func shared(t *testing.T, l lab, node string) {
	conn, err := l.client(t).Connect(t.Context(), l.proxy(), ssh.Target{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 3 {
		s, err := conn.Start(t.Context(), ssh.Start{Command: fmt.Sprintf("echo %d", i)})
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := io.ReadAll(s); string(out) != fmt.Sprintf("%d\n", i) {
			t.Errorf("session %d said %q", i, out)
		}
	}
}

// TestRefusals is how a Teleport says no.
func TestRefusals(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1})
	node := l.node(t, "node-0")
	l.open(t, ssh.Target{Node: node}, ssh.Start{Command: "true"})
	tests := []struct {
		because string
		proxy   ssh.Proxy
		target  ssh.Target
		phase   history.Phase
		cut     history.Cut
		says    string
	}{
		{"no such node", l.proxy(), ssh.Target{Node: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}, history.PhaseRoute, history.CutUnrouted, "not registered"},
		{"no such cluster", l.proxy(), ssh.Target{Node: node, Cluster: "wrong.example.com"}, history.PhaseRoute, history.CutUnrouted, "not the cluster's name"},
		{"a login the role does not give", l.proxy(), ssh.Target{Node: node, Login: "admin"}, history.PhaseSSHNode, history.CutDenied, `no login "admin"`},
		{"a name the proxy has no certificate for", ssh.Proxy{Address: l.Web, Name: "10.9.8.7"}, ssh.Target{Node: node}, history.PhaseSSHProxy, history.CutProtocol, "its certificate is for"},
		{"a port that routes no TLS", ssh.Proxy{Address: l.AuthAPI}, ssh.Target{Node: node}, history.PhaseTLS, history.CutProtocol, "no Teleport web port"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			_, err := l.client(t).Open(t.Context(), tt.proxy, tt.target, ssh.Start{PTY: true})
			var e *ssh.OpenError
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Phase != tt.phase || e.Cut != tt.cut || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("got phase %s, cut %s, %q; want %s, %s, containing %q", e.Phase, e.Cut, e, tt.phase, tt.cut, tt.says)
			}
		})
	}
}

// TestSeparate is the SSH port of proxyListenerMode separate.
func TestSeparate(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1, Separate: true})
	node := l.node(t, "node-0")
	l.open(t, ssh.Target{Node: node}, ssh.Start{Command: "true"}) // the web port routes TLS in this mode too
	s, err := l.client(t).Open(t.Context(), ssh.Proxy{Address: l.SSH, Separate: true}, ssh.Target{Node: node}, ssh.Start{Command: "echo hello"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, _ := io.ReadAll(s); string(out) != "hello\n" {
		t.Errorf("output %q", out)
	}
}

// sessionID asks the shell of a terminal for the session's id in the audit log.
func sessionID(t *testing.T, s *ssh.Session) string {
	t.Helper()
	fmt.Fprintln(s, "echo sid=$SSH_SESSION_ID.")
	return expect(t, s, regexp.MustCompile(`sid=([0-9a-f-]{36})\.`))
}

// expect reads lines until one matches and gives its first group, or the whole match.
func expect(t *testing.T, s *ssh.Session, want *regexp.Regexp) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		r := bufio.NewReader(s)
		for {
			line, err := r.ReadString('\n')
			if m := want.FindStringSubmatch(line); m != nil {
				found <- m[len(m)-1]
				return
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case m := <-found:
		return m
	case <-time.After(10 * time.Second):
		t.Fatalf("nothing like %s came within 10 s", want)
		return ""
	}
}
