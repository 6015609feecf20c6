package load

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

func constant(rate float64) *scenarios.Open {
	return &scenarios.Open{Distribution: "constant", Legs: []scenarios.Leg{{From: rate, To: rate}}}
}

// idle is a session that is held and says nothing.
func idle(length time.Duration) scenarios.Session {
	return scenarios.Session{Behaviour: "idle", Length: scenarios.Always(length)}
}

// runFor runs an engine over a system without trouble.
func runFor(p *scenarios.Plan, lasting time.Duration, t Targets) (Stats, *memory) {
	e, m := fakeEngine(p, &fakeSystem{fate: func(int) fate { return fate{latency: 10 * time.Millisecond} }}, t)
	e.Start(context.Background())
	time.Sleep(lasting)
	return stop(e), m
}

func TestOpenModelBeginsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats, m := runFor(plan(idle(3*time.Second), scenarios.Arrival{Open: constant(4)}), 10*time.Second+time.Millisecond, someTargets())
		if stats.Due != 40 || stats.Started != 40 || stats.Missed != 0 || stats.Capped != 0 {
			t.Errorf("four a second for ten seconds: %+v", stats)
		}
		for _, s := range payloads[history.Session](m) {
			if s.Start != s.Due || s.Open-s.Due != 20*time.Millisecond {
				t.Errorf("%s was due at %s, began at %s, was open at %s", s.ID, s.Due, s.Start, s.Open)
			}
		}
	})
}

func TestCapIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats, m := runFor(plan(idle(time.Hour), scenarios.Arrival{Open: constant(10), MaxHeld: 7}), 5*time.Second+time.Millisecond, someTargets())
		if stats.Due != 50 || stats.Started != 7 || stats.Capped != 43 || stats.Missed != 0 {
			t.Errorf("%+v", stats)
		}
		if n := len(payloads[history.Session](m)); n != 7 {
			t.Errorf("%d sessions in the ledger, what was capped is none", n)
		}
	})
}

// TestLateIsOurs: sessions that were due long ago are not begun, and not hidden either.
func TestLateIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(idle(time.Second), scenarios.Arrival{Open: constant(10)})
		e, m := fakeEngine(p, &fakeSystem{fate: func(int) fate { return fate{} }}, someTargets())
		e.Start(context.Background())
		time.Sleep(2 * time.Second)
		e.streams[0].arrive(1000, time.Now().Add(-1500*time.Millisecond))
		stats := stop(e)
		if stats.Missed != 1 || stats.Due != stats.Started+1 {
			t.Errorf("%+v", stats)
		}
		late := slices.DeleteFunc(payloads[history.Session](m), func(s history.Session) bool { return s.Class != history.Ours })
		if len(late) != 1 || late[0].ID != "s/1000" || late[0].Start != 0 || late[0].Reason == "" || late[0].Proxy.UID != "" {
			t.Errorf("ours are %+v", late)
		}
	})
}

func TestClosedModelReplacesWhatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := scenarios.Arrival{Closed: &scenarios.Closed{Held: 5, Think: scenarios.Always(time.Second)}}
		stats, m := runFor(plan(idle(3*time.Second), a), 20*time.Second, someTargets())
		// Each of five lasts 3 s and its replacement comes 1 s later: ten seconds hold two and a half of them.
		if stats.Due < 5*4 || stats.Due > 5*6 || stats.Started != stats.Due {
			t.Errorf("%+v", stats)
		}
		ids := map[string]bool{}
		for _, s := range payloads[history.Session](m) {
			if ids[s.ID] {
				t.Errorf("%s twice", s.ID)
			}
			ids[s.ID] = true
		}
		most := 0
		for _, g := range payloads[history.Generator](m) {
			most = max(most, g.Streams[0].Held)
		}
		if most != 5 {
			t.Errorf("held at most %d", most)
		}
	})
}

// TestClosedModelDoesNotHammer: a system that is down is tried once a second by each of those held, not as fast as
// it can refuse.
func TestClosedModelDoesNotHammer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(idle(time.Second), scenarios.Arrival{Closed: &scenarios.Closed{Held: 3}})
		stats, m := runFor(p, 10*time.Second+time.Millisecond, fixed{})
		if stats.Refused < 30 || stats.Refused > 33 {
			t.Errorf("%+v", stats)
		}
		for _, s := range payloads[history.Session](m) {
			if s.Class != history.Refused || s.Failed != history.PhaseConnect || s.Cut != history.CutConnect || s.Proxy.UID != "" {
				t.Fatalf("no proxy is ready: %+v", s)
			}
		}
	})
}

func TestStreamsStartAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(idle(time.Second), scenarios.Arrival{Open: constant(10)})
		second := p.Streams[0]
		second.Name, second.Seed, second.Start, second.For = "late", 2, scenarios.Span(5*time.Second), scenarios.Span(2*time.Second)
		p.Streams = append(p.Streams, second)
		_, m := runFor(p, 10*time.Second, someTargets())
		var dues []time.Duration
		for _, s := range payloads[history.Session](m) {
			if s.Stream == "late" {
				dues = append(dues, s.Due)
			}
		}
		slices.Sort(dues)
		if len(dues) < 19 || dues[0] < 5*time.Second || dues[len(dues)-1] >= 7*time.Second {
			t.Errorf("due at %v", dues)
		}
	})
}

// TestSameSeedSameWay: which pod and node a session takes comes from the plan, whatever the order of the watch.
func TestSameSeedSameWay(t *testing.T) {
	ways := func(order fixed) map[string][2]string {
		out := map[string][2]string{}
		synctest.Test(t, func(*testing.T) {
			_, m := runFor(plan(idle(time.Second), scenarios.Arrival{Open: constant(20)}), 5*time.Second, order)
			for _, s := range payloads[history.Session](m) {
				out[s.ID] = [2]string{s.Proxy.UID, s.Agent.UUID}
			}
		})
		return out
	}
	a, b := someTargets(), someTargets()
	slices.Reverse(b.proxies)
	first, second := ways(a), ways(b)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	through := map[string]int{}
	for _, w := range first {
		through[w[0]]++
		through[w[1]]++
	}
	if through["c"] != 0 || through["a"] < 25 || through["b"] < 25 || through["u0"] < 25 || through["u1"] < 25 {
		t.Errorf("sessions by pod and node: %v; c is not ready", through)
	}
}

func TestTarget(t *testing.T) {
	open := scenarios.Arrival{Open: &scenarios.Open{Legs: []scenarios.Leg{{From: 0, To: 10, For: scenarios.Span(10 * time.Second)}, {From: 10, To: 10}}}}
	closed := scenarios.Arrival{Closed: &scenarios.Closed{Held: 100, Over: scenarios.Span(10 * time.Second)}}
	tests := []struct {
		because string
		arrival scenarios.Arrival
		at      time.Duration
		want    float64
	}{
		{"in the middle of a ramp", open, 5 * time.Second, 5},
		{"after the ramp", open, time.Minute, 10},
		{"while the first are spread", closed, 2500 * time.Millisecond, 25},
		{"when all are held", closed, time.Minute, 100},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			now := time.Now()
			s := newStream(nil, scenarios.StreamPlan{Stream: scenarios.Stream{Arrival: tt.arrival}})
			s.began = now
			if got := s.target(now.Add(tt.at)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
