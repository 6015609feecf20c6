package audit

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Group reads the logs of several auths as one. Where they share their storage one Log is enough; auths that keep
// events and recordings on disks of their own (etcd holds neither, for real Teleport) have each a part.
type Group []*Log

// Events gives what the logs have together, each entry once, oldest first. It fails if any log does: a part that
// is missing would look like loss.
func (g Group) Events(ctx context.Context, from, to time.Time, kinds ...string) ([]Event, error) {
	var all []Event
	seen := map[string]bool{}
	for _, l := range g {
		for e, err := range l.Events(ctx, from, to, kinds...) {
			if err != nil {
				return nil, err
			}
			if id := e.Raw.GetID(); id != "" {
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// Play reads a recording from the first log that has it. The error is ErrNotFound only if none has it.
func (g Group) Play(ctx context.Context, session string) (Playback, error) {
	var missing error
	for _, l := range g {
		p, err := l.Play(ctx, session)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return Playback{}, err
		}
		missing = err
	}
	return Playback{}, missing
}

// Active lists the trackers that any auth knows, each once.
func (g Group) Active(ctx context.Context) ([]Tracker, error) {
	var all []Tracker
	for _, l := range g {
		some, err := l.Active(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range some {
			if !slices.ContainsFunc(all, func(o Tracker) bool { return o.Session == t.Session }) {
				all = append(all, t)
			}
		}
	}
	return all, nil
}
