package timeline

import (
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// machine knows where every step stands and moves them on. It has no clock: each call says what time it
// is. It is for one goroutine.
type machine struct {
	steps []*step
	index map[string]int
	base  time.Duration // when the timeline began, in the run's time
	poll  time.Duration
	asked time.Duration // when the conditions were asked last
	holds func(expr string) (bool, string, error)
	emit  func(history.Event)
	start []int // actions to begin, filled by advance
}

// phase is where a step stands.
type phase int

const (
	pending phase = iota // its needs do not hold yet
	asking               // its When is awaited
	running
	over
)

// step is one step in the making. Moments are since the run's start.
type step struct {
	scenarios.Step
	number   int
	parent   int // -1: none
	children []int

	phase    phase
	due      time.Duration // when its needs held
	began    time.Duration // started, or over without that
	ended    time.Duration
	deadline time.Duration // of the condition awaited
	seen     string        // what the condition awaited was last
	result   StepResult
}

// forever is later than any run.
const forever = time.Duration(1<<63 - 1)

func newMachine(steps []scenarios.Step, base, poll time.Duration, holds func(string) (bool, string, error), emit func(history.Event)) *machine {
	m := &machine{index: map[string]int{}, base: base, poll: poll, asked: base - poll, holds: holds, emit: emit}
	for i, s := range steps {
		m.index[s.ID] = i
		m.steps = append(m.steps, &step{Step: s, number: i, parent: -1, result: StepResult{ID: s.ID, OrElse: s.OrElse}})
	}
	for i, s := range m.steps {
		if p, ok := m.index[s.Parent]; ok && s.Parent != "" {
			s.parent = p
			m.steps[p].children = append(m.steps[p].children, i)
		}
	}
	return m
}

// advance moves everything that can move at now, and gives the steps whose action is to begin.
func (m *machine) advance(now time.Duration) []int {
	m.start = nil
	ask := now-m.asked >= m.poll
	if ask {
		m.asked = now
	}
	for moved := true; moved; {
		moved = false
		for _, s := range m.steps {
			if m.move(s, now, ask) {
				moved = true
			}
		}
	}
	return m.start
}

// move takes one step one phase further, if it can go.
func (m *machine) move(s *step, now time.Duration, ask bool) bool {
	switch s.phase {
	case pending:
		due, known := m.due(s)
		if !known || due > now {
			return false
		}
		s.due = due
		m.arrive(s, now)
		return true
	case asking:
		return m.await(s, s.When, now, ask, func() { m.begin(s, now, now) })
	case running:
		return m.moveRunning(s, now, ask)
	}
	return false
}

func (m *machine) moveRunning(s *step, now time.Duration, ask bool) bool {
	switch {
	case s.Wait != nil && s.Wait.For != "":
		return m.await(s, s.Wait.For, now, ask, func() { m.end(s, now, 0, nil) })
	case s.Wait != nil:
		due := s.began + s.Wait.Time.Duration()
		if due > now {
			return false
		}
		m.end(s, now, due, nil)
		return true
	case s.Do == nil && m.allOver(s.children):
		m.end(s, now, 0, m.failedBelow(s))
		return true
	}
	return false
}

// due is when the needs of a step hold; not known before all the points they count from are past.
func (m *machine) due(s *step) (due time.Duration, known bool) {
	for _, n := range s.Needs {
		at, past := m.point(n)
		if !past {
			return 0, false
		}
		due = max(due, at+n.Plus.Duration())
	}
	return max(due, m.base), true
}

func (m *machine) point(n scenarios.Need) (at time.Duration, past bool) {
	if n.Step == "" {
		return m.base, true
	}
	i, ok := m.index[n.Step]
	if !ok {
		return 0, false
	}
	s := m.steps[i]
	if n.Point == scenarios.Started {
		return s.began, s.phase >= running
	}
	return s.ended, s.phase == over
}

// arrive is when a step's needs hold: it waits for its condition, or begins.
func (m *machine) arrive(s *step, now time.Duration) {
	if why := m.nothingToHeal(s); why != "" {
		m.skip(s, now, why)
		return
	}
	if s.When == "" {
		m.begin(s, now, s.due)
		return
	}
	s.phase, s.deadline = asking, deadline(s.due, s.Within)
	m.asked = now - m.poll // a condition that holds already makes nobody wait
	m.record(s, history.EntryWaiting, s.due, s.When, "", nil)
}

// begin starts what the step does.
func (m *machine) begin(s *step, now, due time.Duration) {
	s.phase, s.began = running, now
	when := s.When
	if s.Wait != nil && s.Wait.For != "" {
		when = s.Wait.For
		s.deadline = deadline(now, s.Wait.Within)
		m.asked = now - m.poll
	}
	m.record(s, history.EntryStarted, due, when, s.seen, nil)
	s.seen = ""
	if s.Do != nil {
		s.due = due
		m.start = append(m.start, s.number)
	}
}

func deadline(from time.Duration, within scenarios.Span) time.Duration {
	if within <= 0 {
		return forever
	}
	return from + within.Duration()
}

// await asks the condition that a step waits for, and goes on when it holds or is missed.
func (m *machine) await(s *step, expr string, now time.Duration, ask bool, holds func()) bool {
	late := now >= s.deadline
	if !ask && !late {
		return false
	}
	ok, value, err := m.holds(expr)
	s.seen = value
	if err != nil {
		s.seen = err.Error()
	}
	switch {
	case ok && err == nil:
		holds()
		return true
	case late:
		m.miss(s, expr, now)
		return true
	}
	return false
}

// next is the earliest moment at which advance may move something by itself.
func (m *machine) next() time.Duration {
	at := forever
	for _, s := range m.steps {
		switch {
		case s.phase == pending:
			if due, known := m.due(s); known {
				at = min(at, due)
			}
		case s.phase == asking, s.phase == running && s.Wait != nil && s.Wait.For != "":
			at = min(at, m.asked+m.poll, s.deadline)
		case s.phase == running && s.Wait != nil:
			at = min(at, s.began+s.Wait.Time.Duration())
		}
	}
	return at
}
