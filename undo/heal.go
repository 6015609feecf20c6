package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Undoer undoes one change and verifies it, in one try. It is idempotent: what is undone already, what
// never happened and what no longer exists is a success, and the text says which.
type Undoer interface {
	Undo(ctx context.Context, e Entry) (checked string, err error)
}

// ErrFinal marks an error that another try will not change.
var ErrFinal = errors.New("cannot be undone")

// Patience is how long is tried to undo one entry, unless the log says otherwise.
const Patience = 2 * time.Minute

// Undo undoes the given entries in the order given, with retries, going on past errors, and writes each
// result. It should get a context that outlives a cancelled run.
func (l *Log) Undo(ctx context.Context, by Undoer, entries ...Entry) []Result {
	var out []Result
	for _, e := range entries {
		r := l.try(ctx, by, e)
		ln := line{ID: e.ID, State: Undone, Tries: r.Tries, Checked: r.Checked}
		if r.Err != nil {
			ln.State, ln.Error = Unhealed, r.Err.Error()
		}
		r.Err = errors.Join(r.Err, l.set(e, ln))
		out = append(out, r)
	}
	return out
}

// Heal undoes everything that is pending, the newest first.
func (l *Log) Heal(ctx context.Context, by Undoer) []Result {
	out := l.Undo(ctx, by, l.Pending()...)
	if l.mirror != nil {
		// What a heal that died left of the copy; if it stays it holds no intents.
		_ = l.mirror.Clean(ctx, l.head.Run)
	}
	return out
}

// once undoes an entry and takes it out of the copy in the cluster. The file is told last: what it holds
// as pending is done again.
func (l *Log) once(ctx context.Context, by Undoer, e Entry) (string, error) {
	checked, err := by.Undo(ctx, e)
	if err == nil && l.mirror != nil {
		if err = l.mirror.Drop(ctx, e); err != nil {
			err = fmt.Errorf("undone (%s), but its copy in the cluster stays: %w", checked, err)
		}
	}
	return checked, err
}

// try undoes one entry, again after errors, until it works or Patience is over.
func (l *Log) try(ctx context.Context, by Undoer, e Entry) Result {
	patience := Patience
	if l.TryFor > 0 {
		patience = l.TryFor
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := Result{Entry: e}
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		r.Tries++
		if r.Checked, r.Err = l.once(ctx, by, e); r.Err == nil || errors.Is(r.Err, ErrFinal) {
			return r
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(pause):
		}
	}
}

// Heal undoes what a dead run left in this cluster, the newest first, and goes on past errors. If it is
// another cluster than the run's, that one and all changes in it are gone. Where the API server does not
// answer, the run itself may have stopped it: then what needs no API is undone before all else.
func Heal(ctx context.Context, l *Log, in Cluster) ([]Result, error) {
	if l.head.ClusterID == "" {
		return l.Heal(ctx, in), nil
	}
	id, err := identify(ctx, in, apiPatience)
	var first []Result
	if err != nil && l.standsSince(ctx, in) {
		first = l.withoutAPI(ctx, in)
		id, err = identify(ctx, in, apiReturns)
	}
	if err != nil {
		return first, err
	}
	if id != l.head.ClusterID {
		l.mirror = nil
		return append(first, l.Heal(ctx, Gone{"the run's cluster is gone, this is another"})...), nil
	}
	l.forget(ctx, first)
	return append(first, l.Heal(ctx, in)...), nil
}

// How long the API server may take to say which cluster it is of, and to come back.
const (
	apiPatience = 5 * time.Second
	apiReturns  = time.Minute
)

// identify is ClusterID, tried for so long.
func identify(ctx context.Context, in Cluster, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		id, err := ClusterID(ctx, in.Client)
		if err == nil {
			return id, nil
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// standsSince says whether the cluster is known to be the run's without its API: one of this name that was
// there before the log began, and is still, can be no other.
func (l *Log) standsSince(ctx context.Context, in Cluster) bool {
	if in.Cluster == nil || l.begun.IsZero() || in.Cluster.Name() != l.head.Cluster {
		return false
	}
	facts, err := in.Cluster.Facts(ctx)
	return err == nil && !facts.Started.IsZero() && facts.Started.Before(l.begun)
}

// withoutAPI undoes the pending changes that were made by programs in the cluster's network. Their copies in
// the cluster stay for now.
func (l *Log) withoutAPI(ctx context.Context, in Cluster) []Result {
	mirror := l.mirror
	l.mirror = nil
	defer func() { l.mirror = mirror }()
	commands := slices.DeleteFunc(l.Pending(), func(e Entry) bool { return e.Change.Kind != CommandRun })
	return l.Undo(ctx, in, commands...)
}

// forget drops the copies of what was undone while the API was away. One that stays is undone once more by
// whoever finds it, which does nothing.
func (l *Log) forget(ctx context.Context, undone []Result) {
	for _, r := range undone {
		if r.Err == nil && l.mirror != nil {
			_ = l.mirror.Drop(ctx, r.Entry)
		}
	}
}

// Gone is the Undoer for a cluster that exists no more.
type Gone struct{ Why string }

// Undo says so.
func (g Gone) Undo(context.Context, Entry) (string, error) { return g.Why, nil }
