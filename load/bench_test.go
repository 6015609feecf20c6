package load

import (
	"context"
	"slices"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// mirror gives back at once what is typed, without goroutines or copies of its own.
type mirror struct {
	fakeLink
	s *session
}

func (m *mirror) Write(p []byte) (int, error) {
	m.s.take(p)
	return len(p), nil
}

// BenchmarkLine types one line and checks its echo: what a held session costs us at each pace, beside SSH.
func BenchmarkLine(b *testing.B) {
	p := plan(scenarios.Session{Behaviour: "interactive", Length: scenarios.Always(time.Hour), Pace: scenarios.Always(time.Millisecond)}, scenarios.Arrival{Open: constant(1)})
	e, _ := fakeEngine(p, nil, someTargets())
	e.life, e.end = context.WithCancel(context.Background())
	defer e.end()
	e.base = time.Now()
	s := &session{e: e, stream: e.streams[0], drawn: e.streams[0].plan.Session(1, 1)}
	s.how, _ = behaviourOf(s.drawn.Session)
	s.link = &mirror{s: s}
	s.checker = &lines.Checker{Token: lines.Token(s.drawn.Seed), Foreign: s.foreign}
	s.entry.Do = func() {}
	s.mu.Lock()
	s.begin(1)
	s.mu.Unlock()
	now := time.Duration(1)
	b.ReportAllocs()
	for b.Loop() {
		now += time.Millisecond
		s.mu.Lock()
		s.feed(now)
		s.plan()
		s.mu.Unlock()
	}
	if got := s.checker.Count(); got == 0 || got != s.script.sent() {
		b.Fatalf("%d lines acknowledged of %d", got, s.script.sent())
	}
}

// instant opens sessions that end at once, at no cost.
type instant struct{}

func (instant) open(context.Context, route, launch) (link, error) {
	return nil, &openError{Phase: history.PhaseConnect, Cut: history.CutConnect, Err: errNoAgent}
}

// BenchmarkArrivals lets sessions arrive at 2,000 a second, as long as b.N says, and reports how late they begin, where
// opening them costs nothing.
func BenchmarkArrivals(b *testing.B) {
	const rate = 2000
	e, m := fakeEngine(plan(idle(time.Second), scenarios.Arrival{Open: constant(rate)}), instant{}, someTargets())
	e.Start(context.Background())
	time.Sleep(time.Duration(b.N) * time.Second / rate)
	e.Stop(context.Background())
	var late []time.Duration
	for _, s := range payloads[history.Session](m) {
		late = append(late, s.Start-s.Due)
	}
	slices.Sort(late)
	if len(late) == 0 {
		return // b.N is 1 at first
	}
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-µs")
	b.ReportMetric(float64(late[len(late)-1].Microseconds()), "late-max-µs")
}
