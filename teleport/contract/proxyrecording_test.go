package contract

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
)

// TestProxyRecording is the modes in which the proxy ends the user's SSH and opens its own to the node, with the
// user's key, which it asks the client's agent for.
func TestProxyRecording(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"proxy", "proxy-sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := start(t, local.Options{Nodes: 1, Recording: mode})
			began := time.Now().Add(-time.Minute)
			c, err := ssh.New(ssh.Options{Identity: l.id, ForwardAgent: true, Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			target := ssh.Target{Node: l.node(t, "node-0")}
			s := l.openBy(t, c, target, ssh.Start{PTY: true})
			if recording, err := s.Conn().RecordingProxy(); !recording || err != nil {
				t.Errorf("the proxy says that it records: %t, %v", recording, err)
			}
			sessionID(t, s) // the node's, which is not recorded
			for i := range 5 {
				fmt.Fprintf(s, "echo line $((%d*1000))\n", i)
			}
			fmt.Fprintln(s, "exit 2")
			_, _ = io.Copy(io.Discard, s)
			if end := s.End(t.Context()); !end.Exited || end.Status != 2 {
				t.Errorf("end %+v, want status 2", end)
			}
			log := l.log(t, false)
			id := startedFrom(t, log, began, s.Conn().LocalAddr().String())
			logged(t, log, began, id)
			played(t, log, id)
			t.Run("without an agent it is refused", func(t *testing.T) {
				_, err := l.client(t).Open(t.Context(), l.proxy(), target, ssh.Start{PTY: true})
				if err == nil || !strings.Contains(err.Error(), "offer the agent") {
					t.Errorf("got %v, want to be told of the agent", err)
				}
			})
		})
	}
}

// startedFrom gives the id of the session that the log says began from the address.
func startedFrom(t *testing.T, log *audit.Log, began time.Time, address string) string {
	t.Helper()
	for e, err := range log.Events(t.Context(), began, time.Now().Add(time.Minute), audit.SessionStart) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Remote == address {
			if e.By == "" {
				t.Errorf("%+v does not say that a proxy recorded it", e)
			}
			return e.Session
		}
	}
	t.Fatalf("no session.start from %s", address)
	return ""
}
