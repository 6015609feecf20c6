package undo

import (
	"context"
	"errors"
	"time"
)

// Undoer undoes one change and verifies it, in one try. It is idempotent: what is undone already, what
// never happened and what no longer exists is a success, and the text says which.
type Undoer interface {
	Undo(ctx context.Context, e Entry) (checked string, err error)
}

// ErrFinal marks an error that another try will not change.
var ErrFinal = errors.New("cannot be undone")

// Patience is how long is tried to undo one entry.
const Patience = 2 * time.Minute

// Undo undoes the given entries in the order given, with retries, going on past errors, and writes each
// result. It should get a context that outlives a cancelled run.
func (l *Log) Undo(ctx context.Context, by Undoer, entries ...Entry) []Result {
	var out []Result
	for _, e := range entries {
		r := try(ctx, by, e)
		ln := line{ID: e.ID, State: Undone, Tries: r.Tries, Checked: r.Checked}
		if r.Err != nil {
			ln.State, ln.Error = Unhealed, r.Err.Error()
		}
		r.Err = errors.Join(r.Err, l.set(e, ln))
		if r.Err == nil && l.mirror != nil {
			// A copy that stays behind costs one more look at the next heal, no more.
			_ = l.mirror.Drop(ctx, e)
		}
		out = append(out, r)
	}
	return out
}

// Heal undoes everything that is pending, the newest first.
func (l *Log) Heal(ctx context.Context, by Undoer) []Result {
	return l.Undo(ctx, by, l.Pending()...)
}

// try undoes one entry, again after errors, until it works or Patience is over.
func try(ctx context.Context, by Undoer, e Entry) Result {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	r := Result{Entry: e}
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		r.Tries++
		if r.Checked, r.Err = by.Undo(ctx, e); r.Err == nil || errors.Is(r.Err, ErrFinal) {
			return r
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(pause):
		}
	}
}
