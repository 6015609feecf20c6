package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// stepped is a stream of three steps of ten seconds each, at 4, 8 and 16 a second, that begins 5 s after the load,
// which began 2 s after the run.
func stepped(maxHeld int) scenarios.StreamPlan {
	leg := func(rate float64) scenarios.Leg {
		return scenarios.Leg{From: rate, To: rate, For: scenarios.Span(10 * sec)}
	}
	return scenarios.StreamPlan{Stream: scenarios.Stream{
		Name: "steps", Start: scenarios.Span(5 * sec), Mix: []scenarios.Weighted{{Weight: 1, Session: scenarios.Session{Kind: "ssh"}}},
		Arrival: scenarios.Arrival{Open: &scenarios.Open{Distribution: "constant", Legs: []scenarios.Leg{leg(4), leg(8), leg(16)}}, MaxHeld: maxHeld},
	}}
}

// climbed is the history of that stream; what becomes of session n, due at a moment of the load, is said by fate.
func climbed(t testing.TB, plan scenarios.StreamPlan, fate func(n int, at time.Duration, s *history.Session) bool, changes ...func(*world)) *Measures {
	const began = 2 * sec
	w := steady()
	w.events = slices.DeleteFunc(w.events, func(e history.Event) bool {
		switch e.Data.(type) {
		case history.Session, history.SessionOpened, history.Recording, history.Generator:
			return true
		}
		return false
	})
	w.expect.Steps = FromPlan(&scenarios.Plan{Streams: []scenarios.StreamPlan{plan}}).Steps
	for _, change := range changes {
		change(w)
	}
	capped := uint64(0)
	for n, at := range plan.Arrivals() {
		due := began + at
		s := history.Session{ID: fmt.Sprintf("steps/%d", n), Stream: "steps", Type: "ssh", Due: due, Start: due, Open: due + 100*time.Millisecond, End: due + sec, Class: history.Clean}
		if !fate(int(n), at, &s) {
			capped++
			w.at(due+time.Nanosecond, "", history.Generator{Streams: []history.StreamSample{{Name: "steps", Due: n, Capped: capped}}})
			continue
		}
		w.at(s.End, s.ID, s)
	}
	return w.measure(t)
}

func refusedAt(s *history.Session) {
	s.Class, s.Open, s.Failed, s.Cut = history.Refused, 0, history.PhaseConnect, history.CutTimeout
}

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		why  string
		fate func(n int, at time.Duration, s *history.Session) bool
		kept []string
		says string
	}{
		{"all of it opens", func(int, time.Duration, *history.Session) bool { return true },
			[]string{StepKept, StepKept, StepKept}, "kept up with 16/s (p99 100 ms)"},
		{"from the second step on one of five is refused", func(n int, at time.Duration, s *history.Session) bool {
			if at >= 15*sec && n%5 == 0 {
				refusedAt(s)
			}
			return true
		}, []string{StepKept, StepBroken, StepBroken}, "broken at 8/s (64 of 80 due opened, p99 100 ms), kept up with 4/s (p99 100 ms)"},
		{"one of fifty is refused, which is less than a twentieth", func(n int, _ time.Duration, s *history.Session) bool {
			if n%50 == 0 {
				refusedAt(s)
			}
			return true
		}, []string{StepKept, StepKept, StepKept}, "kept up with 16/s"},
		{"most of the last step is capped, so nobody knows", func(n int, at time.Duration, _ *history.Session) bool { return at < 25*sec || n%2 == 0 },
			[]string{StepKept, StepKept, StepNotOffered}, "kept up with 8/s (p99 100 ms); 16/s was not reached"},
		{"the generator itself did not begin the last step", func(_ int, at time.Duration, s *history.Session) bool {
			if at > 25*sec {
				s.Class, s.Start, s.Open = history.Ours, 0, 0
			}
			return true
		}, []string{StepKept, StepKept, StepNotOffered}, "16/s was not reached"},
		{"the run's end cuts openings off, which is nobody's failure", func(_ int, at time.Duration, s *history.Session) bool {
			if at > 34*sec {
				s.Class, s.Open = history.Unfinished, 0
			}
			return true
		}, []string{StepKept, StepKept, StepKept}, "kept up with 16/s"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			m := climbed(t, stepped(0), tt.fate)
			var kept []string
			for i, s := range m.Steps {
				kept = append(kept, s.Kept)
				if want := float64(7 + 10*i); s.Step != i+1 || s.Start < want-0.001 || s.Start > want+0.001 || s.Rate != float64(int(4)<<i) {
					t.Errorf("%+v", s)
				}
			}
			if diff := cmp.Diff(tt.kept, kept); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, m.Steps)
			}
			if said := BreakingPoint(m.Steps); len(said) != 1 || !strings.HasPrefix(said[0], "steps: ") || !strings.Contains(said[0], tt.says) {
				t.Errorf("%q, want %q", said, tt.says)
			}
		})
	}
}

// TestStepsLeaveOutWhatFaultsRefused: a proxy that is cut off refuses whatever the rate is.
func TestStepsLeaveOutWhatFaultsRefused(t *testing.T) {
	half := func(n int, at time.Duration, s *history.Session) bool {
		if s.Proxy = proxy(1); at >= 15*sec && at < 25*sec && n%2 == 0 {
			refusedAt(s)
		}
		return true
	}
	for _, tt := range []struct {
		why     string
		changes []func(*world)
		kept    string
		due     int
	}{
		{"nothing was done", nil, StepBroken, 80},
		{"the proxy was cut off", []func(*world){faultOn("cut", "partition", 16*sec, 28*sec, onPod(proxy(1)))}, StepKept, 40},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if s := climbed(t, stepped(0), half, tt.changes...).Steps[1]; s.Kept != tt.kept || s.Due != tt.due {
				t.Errorf("%+v, want %s of %d", s, tt.kept, tt.due)
			}
		})
	}
}

// TestStepsAreBounded: a stream that ends before its steps do has fewer, and one without steps has none.
func TestStepsAreBounded(t *testing.T) {
	p := stepped(0)
	p.For = scenarios.Span(12 * sec)
	m := climbed(t, p, func(int, time.Duration, *history.Session) bool { return true })
	if len(m.Steps) != 2 || m.Steps[1].End-m.Steps[1].Start > 2.001 || m.Steps[1].Due != 16 {
		t.Errorf("%+v", m.Steps)
	}
	if m := steady().measure(t); len(m.Steps) != 0 {
		t.Errorf("%+v", m.Steps)
	}
}
