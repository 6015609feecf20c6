package e2e

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// TestSteady: nothing is wrong, so nothing is found; and what is written down is written down whole.
func TestSteady(t *testing.T) {
	for _, mode := range []string{"node", "node-sync", "proxy", "proxy-sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			steady(t, mode)
		})
	}
}

func steady(t *testing.T, mode string) {
	l := start(t, mode)
	events, summary := run(t, l, plan(10, time.Second, 100*time.Millisecond), mode, 5*time.Second, 20*time.Second)
	n := 0
	for s := range of[history.Session](events) {
		n++
		if s.Class != history.Clean && s.Class != history.Unfinished {
			t.Errorf("%s: %s %s %s", s.ID, s.Class, s.Cut, s.Reason)
		}
		if s.ServerSession == "" || s.Proxy.UID != "proxy-uid" || s.Agent.UUID == "" ||
			s.Class == history.Clean && s.Lines.Acked == 0 || s.Lines.Acked != s.Lines.Sent || len(s.Phases) != 6 || s.Remote != l.Web {
			t.Errorf("%s is not whole: %+v", s.ID, s)
		}
	}
	if n < 45 || summary.Expected != n || summary.Classes[history.RecComplete] != n {
		t.Errorf("%d sessions, recordings %+v", n, summary)
	}
	for r := range of[history.Recording](events) {
		if r.Class != history.RecComplete {
			t.Errorf("recording of %s: %s (%s), %d of %d lines, missing %v", r.Session, r.Class, r.Detail, r.Found, r.Expected, r.Missing)
		}
	}
	probes, controls, samples := 0, 0, 0
	for p := range of[history.Probe](events) {
		if probes++; p.Error != "" {
			t.Errorf("canary: %s", p.Error)
		}
	}
	for c := range of[history.Control](events) {
		if controls++; c.Error != "" {
			t.Errorf("control: %s", c.Error)
		}
	}
	for g := range of[history.Generator](events) {
		if samples++; g.CPU < 0 || g.CPU > 1 || g.Files == 0 || g.RSS == 0 || len(g.Streams) != 1 {
			t.Errorf("sample %+v", g)
		}
	}
	if probes < 4 || controls < 4 || samples < 4 {
		t.Errorf("%d canaries, %d controls, %d samples in five seconds", probes, controls, samples)
	}
}
