package contract

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
)

// TestStops is what a client sees when a process on its session's way ends. How soon a signal ends the sessions
// is a matter of versions and not judged here; that they end, where, and how it looks, is.
func TestStops(t *testing.T) {
	t.Parallel()
	tests := []struct {
		because string
		victim  func(lab) *local.Process
		signal  syscall.Signal
		hop     ssh.Hop
	}{
		{"a proxy that is killed takes its connections along", proxyOf, syscall.SIGKILL, ssh.HopProxy},
		{"a proxy that is told to end takes them too", proxyOf, syscall.SIGTERM, ssh.HopProxy},
		{"a node that is killed leaves the proxy standing", nodeOf, syscall.SIGKILL, ssh.HopNode},
		{"a node that is told to end does too", nodeOf, syscall.SIGTERM, ssh.HopNode},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			t.Parallel()
			l := start(t, local.Options{Nodes: 1})
			s := l.open(t, ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{PTY: true})
			sessionID(t, s)
			begin := time.Now()
			if err := tt.victim(l).Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			end := ended(t, s)
			if end.Exited || end.Hop != tt.hop || (end.Cut != history.CutEOF && end.Cut != history.CutReset) {
				t.Errorf("the session ended as %+v, want a cut of the %s connection", end, tt.hop)
			}
			t.Logf("%s: cut %s at the %s after %s (%v)", tt.signal, end.Cut, end.Hop, time.Since(begin).Round(time.Millisecond), end.Err)
		})
	}
	t.Run("an auth that is killed leaves sessions alone", func(t *testing.T) {
		t.Parallel()
		l := start(t, local.Options{Nodes: 1})
		s := l.open(t, ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{PTY: true})
		sessionID(t, s)
		if err := l.Auth.Stop(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // what would break it needs a moment; the answer itself proves the session
		if sessionID(t, s) == "" {
			t.Error("the session does not answer")
		}
	})
}

// TestDrain is SIGQUIT: the proxy takes no more connections and lets its sessions end by themselves.
func TestDrain(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1})
	s := l.open(t, ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{PTY: true})
	sessionID(t, s)
	if err := l.Proxy.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // long enough for a bounded stop to be told from a drain
	if sessionID(t, s) == "" {
		t.Error("the session does not answer while the proxy drains")
	}
	if _, err := l.client(t).Open(t.Context(), l.proxy(), ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{PTY: true}); err == nil {
		t.Error("a draining proxy took a new connection")
	}
	s.Close()
	select {
	case <-l.Proxy.Done():
	case <-time.After(20 * time.Second):
		t.Error("the proxy did not end within 20 s after its last session")
	}
}

func proxyOf(l lab) *local.Process { return l.Proxy }
func nodeOf(l lab) *local.Process  { return l.Nodes[0] }

func ended(t *testing.T, s *ssh.Session) ssh.End {
	t.Helper()
	gone := make(chan bool)
	go func() { _, _ = io.Copy(io.Discard, s); close(gone) }()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the session did not end within 20 s")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return s.End(ctx)
}
