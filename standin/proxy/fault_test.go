package proxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
)

// recordOf waits for what the stand-in says it did wrong.
func (r *rig) recordOf(reg *faults.Registry, name faults.Name) faults.Entry {
	r.t.Helper()
	var found faults.Entry
	r.eventually("record of "+string(name), func() bool {
		for _, e := range reg.Entries() {
			if e.Fault == name {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// sessionID is the audit id of the only session so far.
func (r *rig) sessionID() string {
	r.t.Helper()
	r.eventually("start event", func() bool { return len(r.auth.Events("session.start")) == 1 })
	return r.auth.Events("session.start")[0].(*events.SessionStart).SessionID
}

func TestDropSilently(t *testing.T) {
	r := newRig(t)
	r.nodeFaults.Set(faults.Rule{Name: faults.DropSilently, After: 50 * time.Millisecond})
	s := r.open("standin-echo cat")
	err := s.Wait()
	var missing *ssh.ExitMissingError
	if !errors.As(err, &missing) {
		t.Fatalf("session ended with %v, want no exit status", err)
	}
	if _, _, err := s.outer.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("the connection to the proxy is gone too: %v", err)
	}
	if e := r.recordOf(r.nodeFaults, faults.DropSilently); e.Session != r.sessionID() {
		t.Errorf("recorded for session %q, was %q", e.Session, r.sessionID())
	}
}

func TestDropEverySecond(t *testing.T) {
	r := newRig(t)
	r.nodeFaults.Set(faults.Rule{Name: faults.DropSilently, Every: 2, After: time.Millisecond})
	first, second := r.open("standin-echo cat"), (*terminal)(nil)
	first.say(r, "one", "one")
	second = r.open("standin-echo cat")
	second.Wait()
	first.say(r, "two", "two")
	if n := len(r.nodeFaults.Entries()); n != 1 {
		t.Errorf("%d faults recorded, want 1", n)
	}
}

func TestHalfOpen(t *testing.T) {
	r := newRig(t)
	r.nodeFaults.Set(faults.Rule{Name: faults.HalfOpen, After: 50 * time.Millisecond})
	s := r.open("standin-echo cat")
	if e := r.recordOf(r.nodeFaults, faults.HalfOpen); e.Session != r.sessionID() {
		t.Errorf("recorded for session %q, was %q", e.Session, r.sessionID())
	}
	io.WriteString(s.in, "anybody there\n")
	answered := make(chan error, 1)
	go func() {
		_, _, err := s.inner.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("keep-alive of the inner connection answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if s.out.String() != "" {
		t.Errorf("output %q", s.out)
	}
	if _, _, err := s.outer.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("the connection to the proxy: %v", err)
	}
	s.outer.Close()
	r.eventually("the node lets go of it", func() bool { return len(r.auth.Events("session.end")) == 1 })
}

func TestStallEnds(t *testing.T) {
	r := newRig(t)
	r.nodeFaults.Set(faults.Rule{Name: faults.Stall, After: 50 * time.Millisecond, For: 400 * time.Millisecond})
	s := r.open("standin-echo cat")
	if e := r.recordOf(r.nodeFaults, faults.Stall); e.Session != r.sessionID() {
		t.Errorf("recorded for session %q, was %q", e.Session, r.sessionID())
	}
	began := time.Now()
	s.say(r, "late", "late")
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("answered after %s, want a stall of nearly 400ms", took)
	}
}

func TestRefuseShare(t *testing.T) {
	r := newRig(t)
	r.proxyFaults.Set(faults.Rule{Name: faults.RefuseShare, Every: 2})
	refused := 0
	for range 4 {
		if s, err := r.tryOpen("standin-echo cat"); err != nil {
			refused++
			if !strings.Contains(err.Error(), "refused") {
				t.Errorf("refused without reason: %v", err)
			}
		} else {
			s.outer.Close()
		}
	}
	if n := len(r.proxyFaults.Entries()); refused != 2 || n != refused {
		t.Errorf("%d of 4 refused, %d recorded; want 2", refused, n)
	}
}

func TestReadyWhileDead(t *testing.T) {
	r := newRig(t)
	r.proxyFaults.Set(faults.Rule{Name: faults.ReadyWhileDead})
	if _, err := r.dialProxy(); err == nil {
		t.Error("a connection was served")
	}
	r.recordOf(r.proxyFaults, faults.ReadyWhileDead)
}

// printed joins what a recording holds of the output.
func printed(list []events.AuditEvent) string {
	var b strings.Builder
	for _, e := range list {
		if p, ok := e.(*events.SessionPrint); ok {
			b.Write(p.Data)
		}
	}
	return b.String()
}

// typeLines runs a session that prints line 1 to line 8 one by one, and gives its id.
func (r *rig) typeLines() string {
	r.t.Helper()
	s := r.open("standin-echo cat")
	for i := range 8 {
		line := "line " + string(rune('1'+i))
		s.say(r, line, line)
	}
	s.in.Close()
	if err := s.Wait(); err != nil {
		r.t.Fatal(err)
	}
	return r.sessionID()
}

func TestRecordingFaults(t *testing.T) {
	all := "line 1\r\nline 2\r\nline 3\r\nline 4\r\nline 5\r\nline 6\r\nline 7\r\nline 8\r\n"
	for _, tc := range []struct {
		why   string
		fault faults.Name
		want  string
	}{
		{"without a fault everything is there", "", all},
		{"a truncated recording lacks its last lines", faults.TruncateRecording, strings.ReplaceAll(all, "line 6\r\nline 7\r\nline 8\r\n", "")},
		{"a gap is in the middle", faults.GapRecording, strings.ReplaceAll(all, "line 3\r\nline 4\r\nline 5\r\n", "")},
		{"a duplicate comes twice", faults.DuplicateRecording, strings.ReplaceAll(all, "line 2\r\n", "line 2\r\nline 2\r\n")},
	} {
		for _, mode := range []string{"node", "node-sync"} {
			t.Run(mode+": "+tc.why, func(t *testing.T) {
				r := newRig(t, func(r *rig, _ *config.Config) {
					r.auth.With(func(a *sshtest.Auth) { a.Config.SessionRecording = mode })
				})
				if tc.fault != "" {
					r.nodeFaults.Set(faults.Rule{Name: tc.fault})
				}
				sid := r.typeLines()
				r.eventually("recording", func() bool { return r.auth.Recording(sid) != nil })
				list := r.auth.Recording(sid)
				if got := printed(list); got != tc.want {
					t.Errorf("recorded %q, want %q", got, tc.want)
				}
				if last := list[len(list)-1].GetType(); last != "session.end" {
					t.Errorf("last recorded event is %s", last)
				}
				if tc.fault == "" {
					return
				}
				if e := r.recordOf(r.nodeFaults, tc.fault); e.Session != sid {
					t.Errorf("recorded for session %q, was %q", e.Session, sid)
				}
			})
		}
	}
}

func TestLoseRecording(t *testing.T) {
	for _, mode := range []string{"node", "node-sync"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, func(r *rig, _ *config.Config) {
				r.auth.With(func(a *sshtest.Auth) { a.Config.SessionRecording = mode })
			})
			r.nodeFaults.Set(faults.Rule{Name: faults.LoseRecording})
			sid := r.typeLines()
			if e := r.recordOf(r.nodeFaults, faults.LoseRecording); e.Session != sid {
				t.Errorf("recorded for session %q, was %q", e.Session, sid)
			}
			r.eventually("end event", func() bool { return len(r.auth.Events("session.end")) == 1 })
			time.Sleep(600 * time.Millisecond) // two scans of the uploader
			if r.auth.Recording(sid) != nil {
				t.Error("the recording is there")
			}
		})
	}
}
