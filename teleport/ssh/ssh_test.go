package ssh_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

const cluster = "lab.example.com"

func start(t testing.TB) *sshtest.Server {
	t.Helper()
	a, err := sshtest.NewAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sshtest.Start(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func client(t testing.TB, a *sshtest.Authority, change func(*ssh.Options)) *ssh.Client {
	t.Helper()
	id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	opts := ssh.Options{Identity: id, Timeout: 5 * time.Second}
	if change != nil {
		change(&opts)
	}
	c, err := ssh.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEcho(t *testing.T) {
	s := start(t)
	c := client(t, s.Authority, nil)
	node := ssh.Target{Node: sshtest.NodeID}
	tests := map[string]func() (*ssh.Session, error){
		"TLS routing": func() (*ssh.Session, error) {
			return c.Open(t.Context(), ssh.Proxy{Address: s.Address}, node, ssh.Start{PTY: true})
		},
		"the separate port": func() (*ssh.Session, error) {
			return c.Open(t.Context(), ssh.Proxy{Address: s.Separate, Separate: true}, node, ssh.Start{PTY: true})
		},
		"a pod under other name": func() (*ssh.Session, error) {
			return c.Open(t.Context(), ssh.Proxy{Address: s.Address, Name: "localhost"}, node, ssh.Start{PTY: true})
		},
		"straight to the node": func() (*ssh.Session, error) {
			return c.OpenDirect(t.Context(), s.NodeAddr, sshtest.NodeID, node, ssh.Start{PTY: true})
		},
	}
	for name, open := range tests {
		t.Run(name, func(t *testing.T) {
			session, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if _, err := io.WriteString(session, "line 1\n"); err != nil {
				t.Fatal(err)
			}
			if got, err := bufio.NewReader(session).ReadString('\n'); got != "line 1\n" {
				t.Errorf("echo was %q, %v", got, err)
			}
			for _, hop := range []ssh.Hop{ssh.HopProxy, ssh.HopNode} {
				if _, err := session.Conn().Keepalive(t.Context(), hop); err != nil {
					t.Errorf("keep-alive to the %s: %v", hop, err)
				}
			}
		})
	}
}

// TestHandshake: the node's certificate is checked, and nothing more is asked of it.
func TestHandshake(t *testing.T) {
	s := start(t)
	c := client(t, s.Authority, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, tt := range []struct {
		says, address, name, want string
		ctx                       context.Context
	}{
		{"the node", s.NodeAddr, sshtest.NodeID, "", t.Context()},
		{"another node", s.NodeAddr, "somebody-else", "its certificate is for", t.Context()},
		{"nobody answers", silent.Addr().String(), sshtest.NodeID, "deadline exceeded", short},
	} {
		t.Run(tt.says, func(t *testing.T) {
			err := c.Handshake(tt.ctx, tt.address, tt.name)
			var opening *ssh.OpenError
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.As(err, &opening) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want an OpenError that says %q", err, tt.want)
			}
		})
	}
}

func TestPhases(t *testing.T) {
	s := start(t)
	session, err := client(t, s.Authority, nil).Open(t.Context(), ssh.Proxy{Address: s.Address}, ssh.Target{Node: sshtest.NodeID}, ssh.Start{PTY: true})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	want := []history.Phase{history.PhaseConnect, history.PhaseTLS, history.PhaseSSHProxy, history.PhaseRoute, history.PhaseSSHNode, history.PhaseShell}
	for i, p := range session.Phases() {
		if i >= len(want) || p.Phase != want[i] || p.Took <= 0 {
			t.Errorf("phase %d is %+v, want %s with a time", i, p, want[i])
		}
	}
	if len(session.Phases()) != len(want) {
		t.Errorf("%d phases, want %d", len(session.Phases()), len(want))
	}
}

func TestEnd(t *testing.T) {
	tests := []struct {
		because string
		start   ssh.Start
		cut     func(*sshtest.Server, *ssh.Session)
		want    ssh.End
	}{
		{"a command tells its status", ssh.Start{Command: "exit 3"}, nil, ssh.End{Exited: true, Status: 3}},
		{"a shell whose input ended exits", ssh.Start{PTY: true}, func(_ *sshtest.Server, x *ssh.Session) { x.CloseWrite() }, ssh.End{Exited: true}},
		{"the proxy closed the connection", ssh.Start{PTY: true}, func(s *sshtest.Server, _ *ssh.Session) { s.DropClients(false) }, ssh.End{Cut: history.CutEOF, Hop: ssh.HopProxy}},
		{"the proxy's host reset the connection", ssh.Start{PTY: true}, func(s *sshtest.Server, _ *ssh.Session) { s.DropClients(true) }, ssh.End{Cut: history.CutReset, Hop: ssh.HopProxy}},
		{"the tunnel behind the proxy went", ssh.Start{PTY: true}, func(s *sshtest.Server, _ *ssh.Session) { s.DropNodes() }, ssh.End{Cut: history.CutEOF, Hop: ssh.HopNode}},
		{"we left", ssh.Start{PTY: true}, func(_ *sshtest.Server, x *ssh.Session) { x.Close() }, ssh.End{Ours: true, Cut: history.CutEOF, Hop: ssh.HopProxy}},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			s := start(t)
			session, err := client(t, s.Authority, nil).Open(t.Context(), ssh.Proxy{Address: s.Address}, ssh.Target{Node: sshtest.NodeID}, tt.start)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if tt.cut != nil {
				tt.cut(s, session)
			}
			if _, err := io.Copy(io.Discard, session); err != nil {
				t.Errorf("reading to the end: %v", err)
			}
			got := session.End(t.Context())
			if got.Err == nil && !got.Exited {
				t.Error("a cut without an error is no evidence")
			}
			got.Err = nil
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// silent accepts connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// hangsUp accepts connections, waits for the first words and closes.
func hangsUp(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			c.Close()
		}
	}()
	return ln.Addr().String()
}

// noAnswer dials as into a port whose packets are dropped.
func noAnswer(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOpenErrors(t *testing.T) {
	s := start(t)
	other, err := sshtest.NewAuthority("other.example.com")
	if err != nil {
		t.Fatal(err)
	}
	node := ssh.Target{Node: sshtest.NodeID}
	short := func(o *ssh.Options) { o.Timeout = 50 * time.Millisecond }
	later := func(o *ssh.Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } }
	tests := []struct {
		because string
		c       *ssh.Client
		proxy   ssh.Proxy
		target  ssh.Target
		refuse  func()
		phase   history.Phase
		cut     history.Cut
		says    string
	}{
		{"nothing listens", client(t, s.Authority, nil), ssh.Proxy{Address: closedPort(t)}, node, nil, history.PhaseConnect, history.CutConnect, "nothing listens"},
		{"the name is unknown", client(t, s.Authority, func(o *ssh.Options) { o.Dial = unknownName }), ssh.Proxy{Address: "proxy.invalid:443"}, node, nil, history.PhaseResolve, history.CutProtocol, "not known"},
		{"the peer is silent", client(t, s.Authority, short), ssh.Proxy{Address: silent(t)}, node, nil, history.PhaseTLS, history.CutTimeout, "deadline"},
		{"a silent SSH port", client(t, s.Authority, short), ssh.Proxy{Address: silent(t), Separate: true}, node, nil, history.PhaseSSHProxy, history.CutTimeout, "deadline"},
		{"the port is kept shut", client(t, s.Authority, func(o *ssh.Options) { o.Timeout, o.Dial = 50*time.Millisecond, noAnswer }), ssh.Proxy{Address: "10.0.0.1:3080"}, node, nil, history.PhaseConnect, history.CutTimeout, "NetworkPolicy"},
		{"the peer hangs up on TLS", client(t, s.Authority, nil), ssh.Proxy{Address: hangsUp(t)}, node, nil, history.PhaseTLS, history.CutEOF, "closed the connection without a word"},
		{"the peer hangs up on SSH", client(t, s.Authority, nil), ssh.Proxy{Address: hangsUp(t), Separate: true}, node, nil, history.PhaseSSHProxy, history.CutEOF, "closed the connection without a word"},
		{"the port does not speak TLS", client(t, s.Authority, nil), ssh.Proxy{Address: s.Separate}, node, nil, history.PhaseTLS, history.CutProtocol, "tls"},
		{"the proxy shows another name", client(t, s.Authority, nil), ssh.Proxy{Address: s.Address, Name: "10.0.0.1"}, node, nil, history.PhaseSSHProxy, history.CutProtocol, "its certificate is for localhost"},
		{"the proxy is of another cluster", client(t, other, nil), ssh.Proxy{Address: s.Address}, node, nil, history.PhaseSSHProxy, history.CutProtocol, "not an authority of cluster other.example.com"},
		{"the identity has expired", client(t, s.Authority, later), ssh.Proxy{Address: closedPort(t)}, node, nil, history.PhaseConnect, history.CutConnect, "expired"},
		{"no such node", client(t, s.Authority, nil), ssh.Proxy{Address: s.Address}, ssh.Target{Node: "gone"}, nil, history.PhaseRoute, history.CutUnrouted, "not registered"},
		{"the proxy says why", client(t, s.Authority, nil), ssh.Proxy{Address: s.Address}, node, func() { s.RouteRefusal = "access denied to node" }, history.PhaseRoute, history.CutDenied, "access denied to node"},
		{"the role lacks the login", client(t, s.Authority, nil), ssh.Proxy{Address: s.Separate, Separate: true}, ssh.Target{Node: sshtest.NodeID, Login: "admin"}, nil, history.PhaseSSHNode, history.CutDenied, `has no login "admin", only root`},
		{"the node takes no session", client(t, s.Authority, nil), ssh.Proxy{Address: s.Address}, node, func() { s.ShellRefusal = "too many sessions" }, history.PhaseShell, history.CutDenied, "too many sessions"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			s.RouteRefusal, s.ShellRefusal = "", ""
			if tt.refuse != nil {
				tt.refuse()
			}
			_, err := tt.c.Open(t.Context(), tt.proxy, tt.target, ssh.Start{PTY: true})
			var open *ssh.OpenError
			if !errors.As(err, &open) {
				t.Fatalf("got %v, want an *OpenError", err)
			}
			if open.Phase != tt.phase || open.Cut != tt.cut || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got phase %s, cut %s, %q; want %s, %s, containing %q", open.Phase, open.Cut, err, tt.phase, tt.cut, tt.says)
			}
			if len(open.Phases) == 0 || open.Phases[len(open.Phases)-1].Phase != tt.phase {
				t.Errorf("phases %v do not end with the failed one", open.Phases)
			}
		})
	}
}

func unknownName(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "proxy.invalid", IsNotFound: true}}
}

func TestSilentKeepalive(t *testing.T) {
	s := start(t)
	session, err := client(t, s.Authority, nil).Open(t.Context(), ssh.Proxy{Address: s.Address}, ssh.Target{Node: sshtest.NodeID}, ssh.Start{PTY: true})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.Conn().Keepalive(ctx, ssh.HopNode); err != nil && !errors.Is(err, ssh.ErrSilent) {
		t.Errorf("got %v, want an answer or ErrSilent", err)
	}
}
