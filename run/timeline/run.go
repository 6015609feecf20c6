package timeline

import (
	"context"
	"fmt"
	"time"

	"shakedown.dev/shakedown/scenarios"
)

// ended is an action that has returned.
type ended struct {
	step int
	err  error
}

// Run carries out the steps and returns when each has ended. When ctx ends no step begins any more, the
// actions under way are cancelled and awaited, and what never began is recorded as skipped.
func (r Runner) Run(ctx context.Context, steps []scenarios.Step) Result {
	poll := r.Poll
	if poll <= 0 {
		poll = DefaultPoll
	}
	m := newMachine(steps, r.Record.Now(), poll, r.Conditions.Holds, r.Record.Record)
	done, acting, cancelled := make(chan ended), 0, false
	stop := ctx.Done()
	for {
		if ctx.Err() != nil && !cancelled {
			cancelled, stop = true, nil
			m.cancel(r.Record.Now())
		}
		for _, i := range m.advance(r.Record.Now()) {
			acting++
			go r.act(ctx, m.steps[i].Step, m.steps[i].due, i, done)
		}
		if m.finished() {
			return result(m, cancelled)
		}
		next := m.next()
		if acting == 0 && next == forever {
			m.unstick(r.Record.Now())
			continue
		}
		timer := time.NewTimer(max(next-r.Record.Now(), 0))
		select {
		case <-stop:
		case <-timer.C:
		case e := <-done:
			acting--
			m.finish(e.step, r.Record.Now(), outcomeOf(ctx, e.err))
		}
		timer.Stop()
	}
}

func (r Runner) act(ctx context.Context, s scenarios.Step, due time.Duration, number int, done chan<- ended) {
	done <- ended{number, r.Actor.Do(ctx, s, due)}
}

// outcomeOf tells an action that failed from one that was cancelled: of that nobody knows what it did.
func outcomeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errCancelled, err)
	}
	return err
}

func result(m *machine, cancelled bool) Result {
	r := Result{Cancelled: cancelled}
	for _, s := range m.steps {
		r.Steps = append(r.Steps, s.result)
	}
	return r
}
