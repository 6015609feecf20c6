package contract

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
)

func (l lab) log(t *testing.T, viaProxy bool) *audit.Log {
	t.Helper()
	opts := audit.Options{Address: l.AuthAPI, Identity: func() *identity.Identity { return l.id }, Patience: 5 * time.Second}
	if viaProxy {
		opts.Address, opts.ViaProxy = l.Web, true
	}
	log, err := audit.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// TestRecording is what stays of a terminal session, in each mode of recording.
func TestRecording(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"node", "node-sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := start(t, local.Options{Nodes: 1, Recording: mode})
			log := l.log(t, false)
			began := time.Now().Add(-time.Minute)
			s := l.open(t, ssh.Target{Node: l.node(t, "node-0")}, ssh.Start{PTY: true})
			id := sessionID(t, s)
			t.Run("while it runs it has a tracker and no recording", func(t *testing.T) {
				running(t, log, id)
			})
			for i := range 5 {
				fmt.Fprintf(s, "echo line $((%d*1000))\n", i)
			}
			fmt.Fprintln(s, "exit")
			_, _ = io.Copy(io.Discard, s)
			t.Run("its end is in the log", func(t *testing.T) { logged(t, log, began, id) })
			t.Run("its recording has every line and the end", func(t *testing.T) { played(t, log, id) })
			t.Run("our look at it is not among the events", func(t *testing.T) {
				for e, err := range log.Events(t.Context(), began, time.Now().Add(time.Minute), audit.SessionAccess) {
					t.Errorf("got %+v, %v", e, err)
				}
			})
		})
	}
}

func running(t *testing.T, log *audit.Log, id string) {
	trackers, err := log.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(trackers, func(tr audit.Tracker) bool { return tr.Session == id })
	if i < 0 || trackers[i].Kind != "ssh" || !strings.Contains(trackers[i].State, "Running") {
		t.Errorf("trackers are %+v", trackers)
	}
	if _, err := log.Play(t.Context(), id); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("its recording: %v, want ErrNotFound", err)
	}
}

// logged waits for the session's upload, the last of its events.
func logged(t *testing.T, log *audit.Log, began time.Time, id string) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		codes := map[string]string{}
		last := began
		for e, err := range log.Events(t.Context(), began, time.Now().Add(time.Minute), audit.SessionTypes()...) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Time.Before(last) {
				t.Errorf("%s of %s comes after %s: not oldest first", e.Type, e.Time, last)
			}
			last = e.Time
			if e.Session == id {
				codes[e.Type] = e.Code
			}
		}
		if codes[audit.SessionUpload] != "" {
			want := map[string]string{"session.start": "T2000I", "session.leave": "T2003I", "session.end": "T2004I", "session.upload": "T2005I"}
			for typ, code := range want {
				if codes[typ] != code {
					t.Errorf("%s has code %q, want %s", typ, codes[typ], code)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no session.upload within 30 s, only %v", codes)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func played(t *testing.T, log *audit.Log, id string) {
	p, err := log.Play(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Started || !p.Ended || len(p.Missing) > 0 || p.Duplicates > 0 {
		t.Errorf("started %t, ended %t, missing %v, duplicates %d", p.Started, p.Ended, p.Missing, p.Duplicates)
	}
	lines := p.Lines()
	for i := range 5 {
		if want := fmt.Sprintf("line %d", i*1000); !slices.Contains(lines, want) {
			t.Errorf("%q is not among the lines %q", want, lines)
		}
	}
}

// TestAuditViaProxy is the way to the audit log for those who reach only the proxy.
func TestAuditViaProxy(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{})
	for _, via := range []bool{false, true} {
		s, err := l.log(t, via).Ping(t.Context())
		if err != nil || s.Cluster != l.Name || s.Version == "" {
			t.Errorf("via proxy %t: %+v, %v", via, s, err)
		}
	}
}
