package timeline

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// errCancelled is how a step ended that was under way when the run was cancelled.
var errCancelled = errors.New("cancelled")

const (
	whyCancelled = "the run was cancelled before"
	whyStuck     = "what it waits for never comes"
)

// end ends a step that was running. Due is 0 where nobody could know it before.
func (m *machine) end(s *step, now, due time.Duration, err error) {
	s.phase, s.ended = over, now
	s.result.State, s.result.Err = history.EntryEnded, err
	when := ""
	if s.Wait != nil {
		when = s.Wait.For
	}
	m.record(s, history.EntryEnded, due, when, s.seen, err)
}

// miss ends a step whose condition did not hold in time; what it contains is skipped.
func (m *machine) miss(s *step, expr string, now time.Duration) {
	within := s.Within
	if s.phase == running {
		within, s.result.OrElse = s.Wait.Within, s.Wait.OrElse
	} else {
		s.began = now
	}
	s.phase, s.ended = over, now
	s.result.State = history.EntryMissed
	detail := fmt.Sprintf("did not hold within %s", within.Duration())
	if s.seen != "" {
		detail += "; at last: " + s.seen
	}
	m.record(s, history.EntryMissed, s.deadline, expr, detail, nil)
	m.skipBelow(s, now, fmt.Sprintf("the condition of %s was missed", s.Name))
}

// skip ends a step that never begins, and all it contains.
func (m *machine) skip(s *step, now time.Duration, why string) {
	s.phase, s.began, s.ended = over, now, now
	s.result.State = history.EntrySkipped
	m.record(s, history.EntrySkipped, 0, s.When, why, nil)
	m.skipBelow(s, now, why)
}

func (m *machine) skipBelow(s *step, now time.Duration, why string) {
	for _, i := range s.children {
		c := m.steps[i]
		if c.phase == over {
			continue
		}
		c.result.OrElse = s.result.OrElse // why it is skipped is why its group was missed
		m.skip(c, now, why)
	}
}

// finish ends a step whose action has returned. Where the run was cancelled, nobody knows what it did.
func (m *machine) finish(number int, now time.Duration, err error) {
	m.end(m.steps[number], now, 0, err)
}

// cancel ends everything but the actions that are running: those end when they return.
func (m *machine) cancel(now time.Duration) {
	for _, s := range m.steps {
		switch {
		case s.phase == pending || s.phase == asking:
			m.skip(s, now, whyCancelled)
		case s.phase == running && s.Wait != nil:
			m.end(s, now, 0, errCancelled)
		}
	}
}

// unstick skips what can never begin. A plan has no such steps; a broken one must not hang a run.
func (m *machine) unstick(now time.Duration) {
	for _, s := range m.steps {
		if s.phase == pending {
			m.skip(s, now, whyStuck)
		}
	}
}

// nothingToHeal says why a heal would find no fault in force: the step that was to bring it never acted,
// or failed, and then whoever injects has healed what was half done.
func (m *machine) nothingToHeal(s *step) string {
	if s.Do == nil || s.Do.Action != "heal" {
		return ""
	}
	of, ok := m.index[s.Do.Args.String("of")]
	if !ok || m.steps[of].phase != over {
		return ""
	}
	switch r := m.steps[of].result; {
	case r.State != history.EntryEnded:
		return fmt.Sprintf("%s was %s, so there is nothing to end", r.ID, r.State)
	case r.Err != nil:
		return fmt.Sprintf("%s failed, so there is nothing to end", r.ID)
	}
	return ""
}

func (m *machine) allOver(steps []int) bool {
	for _, i := range steps {
		if m.steps[i].phase != over {
			return false
		}
	}
	return true
}

// failedBelow is the error of a group of whose steps some failed.
func (m *machine) failedBelow(s *step) error {
	var failed []string
	for _, i := range s.children {
		if c := m.steps[i]; c.result.Err != nil {
			failed = append(failed, c.ID)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("failed in it: %s", strings.Join(failed, ", "))
}

func (m *machine) finished() bool {
	for _, s := range m.steps {
		if s.phase != over {
			return false
		}
	}
	return true
}

// record writes a transition down.
func (m *machine) record(s *step, state history.EntryState, due time.Duration, when, detail string, err error) {
	e := history.Entry{
		Name: s.Name, Index: s.number, Round: s.Round, State: state, Action: s.action(), When: when, Detail: detail,
	}
	if s.parent >= 0 {
		e.Parent = m.steps[s.parent].Name
	}
	if state == history.EntryMissed || state == history.EntrySkipped {
		e.OrElse = string(s.result.OrElse)
	}
	var outcome history.Outcome
	if state == history.EntryEnded {
		outcome = history.OK
	}
	if err != nil {
		outcome, e.Error = history.Failed, err.Error()
		if errors.Is(err, errCancelled) {
			outcome = history.Unknown
		}
	}
	m.emit(history.Event{Due: due, Subject: s.ID, Outcome: outcome, Data: e})
}

func (s *step) action() string {
	switch {
	case s.Do != nil:
		return s.Do.Action
	case s.Wait != nil:
		return "wait"
	}
	return ""
}
