package checks

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

func TestCapacityOfAKilledProxy(t *testing.T) {
	m := killed().measure(t)
	c, err := m.Data().Capacity("proxy", gates.Window{})
	if err != nil {
		t.Fatal(err)
	}
	// proxy-1 is deleted at 30.0 s; its last canary was at 30.0 s, and it is gone at 31 s. proxy-4
	// answers from 38.0 s on. From the fault at 30 s to recovery at 38 s one of three is missing for 7 s.
	want := gates.Capacity{Desired: 3, Min: 2, MinReady: 2, LossRatio: 7.0 / (3 * 8), ReplicaSecondsLost: 7}
	if diff := cmp.Diff(want, c, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.01 })); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if b, err := m.Data().SecondsBelow("proxy", 1, gates.Window{}); err != nil || math.Abs(b-7) > 0.01 {
		t.Errorf("seconds below 100 %%: %g, %v", b, err)
	}
	if b, err := m.Data().SecondsBelow("proxy", 0.6, gates.Window{}); err != nil || b != 0 {
		t.Errorf("seconds below 60 %%: %g, %v", b, err)
	}
}

func TestBlackout(t *testing.T) {
	m := killed(dead("proxy-2", 40*sec, 44*sec), dead("proxy-3", 40*sec, 44*sec), dead("proxy-4", 40*sec, 44*sec)).measure(t)
	c, err := m.Data().Capacity("proxy", gates.Window{Kind: gates.After, Phase: "kill", For: 20 * sec})
	if err != nil {
		t.Fatal(err)
	}
	// Canaries sent at 40 to 43 s failed; the first failing one was sent 40 ms before it was told.
	if c.Min != 0 || math.Abs(c.BlackoutSeconds-4.04) > 0.01 {
		t.Errorf("min %d, blackout %g s, want 0 and 4.04 s", c.Min, c.BlackoutSeconds)
	}
}

func TestUnprobedComponentIsJudgedByReadiness(t *testing.T) {
	m := steady().measure(t)
	if got := m.Capacity["auth"]; got.Basis != "ready" || got.Min != 2 {
		t.Errorf("auth: %+v", got)
	}
	if got := m.Capacity["proxy"]; got.Basis != "serving" || got.Min != 3 {
		t.Errorf("proxy: %+v", got)
	}
}

// TestAfterTheLastCanaryNothingIsKnown: canaries end with the timeline, sessions a while later. That is
// no loss of capacity; a window that asks for the time after them is not answered.
func TestAfterTheLastCanaryNothingIsKnown(t *testing.T) {
	w := steady(noProbes(61*sec, 100*sec), gateOn("capacity.proxy.min >= 3"), onlyTo60)
	if v := w.judge(t); v.Verdict != Pass {
		t.Errorf("verdict %s: %q", v.Verdict, v.Reasons)
	}
	if c, err := w.measure(t).Data().Capacity("proxy", gates.Window{Kind: gates.After, Phase: "last"}); err == nil {
		t.Errorf("nobody looked after the last phase, got %+v", c)
	}
	early := steady(noProbes(41*sec, 100*sec), onlyTo60)
	if v := early.judge(t); v.Verdict != Inconclusive {
		t.Errorf("canaries that end before the timeline: %s", v.Verdict)
	}
}

// onlyTo60 ends the timeline at 60 s, while the load goes on.
func onlyTo60(w *world) {
	w.drop(func(e history.Event) bool { return e.Subject == "rest" })
	w.phase("last", 20*sec, 60*sec)
}

func TestCanariesUnderWayAtTheStartAreNoLoss(t *testing.T) {
	w := steady()
	first := map[string]bool{}
	edit(w, func(e *history.Event, p *history.Probe) {
		if !first[p.Pod.Name] { // begun together, ended 20, 40 and 60 ms later
			first[p.Pod.Name] = true
			e.At += time.Duration(len(first)) * 20 * time.Millisecond
			p.Took = time.Duration(len(first)) * 20 * time.Millisecond
		}
	})
	got, err := w.measure(t).Data().Capacity("proxy", gates.Window{})
	if err != nil || got.Min != 3 {
		t.Errorf("all three proxies always served; capacity is %+v (%v)", got, err)
	}
}

func TestServing(t *testing.T) {
	at := func(s float64) time.Duration { return time.Duration(s * float64(sec)) }
	ok := func(s float64) probe { return probe{at(s) - 40*time.Millisecond, at(s), true, false, false} }
	slow := func(from, to float64, good bool) probe { return probe{at(from), at(to), good, false, false} }
	for _, tt := range []struct {
		says   string
		probes []probe
		gone   time.Duration
		want   []span
	}{
		{"canaries a second apart hold together", []probe{ok(1), ok(2), ok(3)}, never, []span{{at(1), at(2)}, {at(2), at(3)}, {at(3), at(5.5)}}},
		{"a failing canary counts from when it was sent", []probe{ok(1), slow(2, 7, false)}, never, []span{{at(1), at(2)}}},
		{"a canary that never comes ends it when the next is overdue", []probe{ok(1), ok(9)}, never, []span{{at(1), at(3.5)}, {at(9), at(10)}}},
		{"a slow canary that goes through keeps it", []probe{ok(1), slow(2, 6, true)}, never, []span{{at(1), at(6)}, {at(6), at(8.5)}}},
		{"a pod that is gone serves nobody", []probe{ok(1), ok(2)}, at(2.2), []span{{at(1), at(2)}, {at(2), at(2.2)}}},
		{"nothing went through", []probe{slow(1, 6, false)}, never, nil},
	} {
		t.Run(tt.says, func(t *testing.T) {
			p := &pod{probes: tt.probes, gone: tt.gone}
			if diff := cmp.Diff(tt.want, p.serving(sec, 10*sec), cmp.AllowUnexported(span{})); diff != "" {
				t.Errorf("serving (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCountSpans compares the step function with counting at each moment.
func TestCountSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) span {
			from := rapid.IntRange(0, 50).Draw(t, "from")
			return span{time.Duration(from), time.Duration(from + rapid.IntRange(0, 20).Draw(t, "length"))}
		}), 0, 12).Draw(t, "spans")
		s := countSpans(0, spans)
		for at := time.Duration(0); at < 75; at++ {
			want := 0
			for _, sp := range spans {
				if sp.contains(at) {
					want++
				}
			}
			if got, known := s.at(at); got != want || !known {
				t.Fatalf("at %d: %d (known %t), want %d of %v", at, got, known, want, spans)
			}
		}
		for i := 1; i < len(s); i++ {
			if s[i].at <= s[i-1].at || s[i].n == s[i-1].n {
				t.Fatalf("step %d of %v is none", i, s)
			}
		}
	})
}

// TestMaxHeld compares the sweep with counting at each opening.
func TestMaxHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		n := rapid.IntRange(0, 30).Draw(t, "n")
		for range n {
			open := rapid.IntRange(1, 40).Draw(t, "open")
			l.sessions = append(l.sessions, session{open: time.Duration(open), end: time.Duration(open + rapid.IntRange(1, 20).Draw(t, "held"))})
		}
		w := span{time.Duration(rapid.IntRange(0, 40).Draw(t, "from")), 0}
		w.to = w.from + time.Duration(rapid.IntRange(1, 40).Draw(t, "window"))
		want := 0
		for at := w.from; at < w.to; at++ {
			held := 0
			for _, s := range l.sessions {
				if s.open <= at && at < s.end {
					held++
				}
			}
			want = max(want, held)
		}
		if got := l.maxHeld(matcher{-1, -1}, []span{w}); got != want {
			t.Fatalf("max held %d, want %d", got, want)
		}
	})
}

func TestSessionWindows(t *testing.T) {
	m := killed().measure(t)
	for _, tt := range []struct {
		says string
		w    gates.Window
		want gates.Sessions
	}{
		{"the whole run", gates.Window{}, gates.Sessions{Offered: 400, Opened: 400, Clean: 384, Dropped: 16, MaxHeld: 50}},
		{"a phase before the fault", gates.Window{Kind: gates.During, Phase: "warmup"}, gates.Sessions{Offered: 100, Opened: 100, Clean: 50, MaxHeld: 50}},
		{"the phase of the fault", gates.Window{Kind: gates.During, Phase: "kill"}, gates.Sessions{Offered: 5, Opened: 5, Clean: 4, Dropped: 16, MaxHeld: 50}},
		{"some time after it", gates.Window{Kind: gates.After, Phase: "kill", For: 10 * sec}, gates.Sessions{Offered: 50, Opened: 50, Clean: 35, MaxHeld: 50}},
	} {
		t.Run(tt.says, func(t *testing.T) {
			got, err := m.Data().Sessions(gates.Filter{}, tt.w)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sessions (-want +got):\n%s", diff)
			}
		})
	}
	for _, w := range []gates.Window{{Kind: gates.During, Phase: "recovery"}, {Kind: gates.After, Phase: "kill", For: 10 * time.Minute}} {
		if got, err := m.Data().Sessions(gates.Filter{}, w); err == nil {
			t.Errorf("%s: nothing was watched, got %+v", w, got)
		}
	}
}

func TestLatencyCountsFromDue(t *testing.T) {
	m := steady(func(w *world) {
		w.sessions(func(s *history.Session) { s.Start, s.Open = s.Due+700*time.Millisecond, s.Due+800*time.Millisecond })
	}).measure(t)
	got, err := m.Data().Latency("terminals", gates.Window{})
	if err != nil || got.P50 < 799*time.Millisecond || got.P50 > 801*time.Millisecond || got.Count != 400 {
		t.Errorf("%+v, %v", got, err)
	}
}
