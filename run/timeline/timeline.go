// Package timeline carries out the steps of a plan: it decides when each begins, and leaves what is done
// to an Actor. Deciding is a machine without clock or goroutines (machine.go), driven by a loop (run.go).
//
// A step that fails has ended, and the steps after it run all the same: among them are those that heal.
// Nothing of it is hidden: every transition is in the history, and a failed step makes a run
// inconclusive there. The alternative, to stop at the first failure, would leave the system broken and
// the load without the rest of its time.
package timeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// Actor carries out the action of a step, and returns when it has ended or failed; it must return soon
// after ctx ends. Due is when it should have begun, since the run's start. Many may run at once.
type Actor interface {
	Do(ctx context.Context, step scenarios.Step, due time.Duration) error
}

// Conditions answer from memory whether a condition holds now, and what its left sides are. An error
// means that it is not known yet: the condition does not hold.
type Conditions interface {
	Holds(expr string) (holds bool, value string, err error)
}

// Recorder takes the history's events and knows the run's clock.
type Recorder interface {
	Record(history.Event)
	Now() time.Duration
}

// DefaultPoll is how often conditions are asked.
const DefaultPoll = 200 * time.Millisecond

// Runner carries out timelines. Actor, Conditions and Record are required.
type Runner struct {
	Actor      Actor
	Conditions Conditions
	Record     Recorder
	Poll       time.Duration // 0: DefaultPoll
}

// Result is how a timeline went.
type Result struct {
	Steps     []StepResult // as in the plan, each exactly once
	Cancelled bool         // ctx ended before the last step had
}

// StepResult is how one step ended.
type StepResult struct {
	ID    string
	State history.EntryState // ended, missed or skipped
	// OrElse says what a missed condition means.
	OrElse scenarios.OrElse
	Err    error // of the action; of a group: that of its steps some failed
}

// Err names the steps that failed and those whose condition was missed, but for those that may be skipped; else nil.
func (r Result) Err() error {
	var errs []error
	for _, s := range r.Steps {
		switch {
		case s.State == history.EntryMissed && s.OrElse != scenarios.ElseSkip:
			errs = append(errs, fmt.Errorf("%s: its condition did not hold in time (%s)", s.ID, s.OrElse))
		case s.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.ID, s.Err))
		}
	}
	return errors.Join(errs...)
}
