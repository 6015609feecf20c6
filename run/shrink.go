package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"shakedown.dev/shakedown/scenarios"
)

// ErrNotAgain is a run whose plan, carried out once more, did not fail as it had: there is nothing to
// shrink, or it fails only sometimes.
var ErrNotAgain = errors.New("the whole plan did not fail again")

// Shrinking looks for a smallest plan that still fails, by whole runs with fewer and fewer faults.
type Shrinking struct {
	Plan *scenarios.Plan
	// Fails carries a plan out and says whether it fails in the way that is looked for. Its error ends the
	// search.
	Fails func(ctx context.Context, p *scenarios.Plan) (bool, error)
	// Tell is told before each trial what is tried. Nil: nobody listens.
	Tell func(about string)
}

// Shrunk is what a search came to. Without any one of Left the plan did not fail.
type Shrunk struct {
	Plan    *scenarios.Plan
	Left    []string // IDs of the faults that it takes
	Dropped []string // of those that it does not take
	Trials  int
}

// Do searches: the whole plan must fail again; then it is tried without any fault, and then without one
// after the other, again from the beginning while that drops any. An error comes with how far it got.
func (s Shrinking) Do(ctx context.Context) (Shrunk, error) {
	out := Shrunk{Plan: s.Plan, Left: faultsOf(s.Plan)}
	fails, err := s.try(ctx, &out, nil, "the whole plan")
	if err == nil && !fails {
		err = ErrNotAgain
	}
	if err != nil || len(out.Left) == 0 {
		return out, err
	}
	if fails, err = s.try(ctx, &out, out.Left, "without any fault"); err != nil || fails {
		return out, err
	}
	for again := len(out.Left) > 1; again; {
		if again, err = s.round(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// round tries to drop each fault that is left, the last first, and says whether one was.
func (s Shrinking) round(ctx context.Context, out *Shrunk) (dropped bool, err error) {
	for _, id := range slices.Backward(slices.Clone(out.Left)) {
		if len(out.Left) == 1 {
			return false, nil // without it the plan has no fault, which was tried
		}
		fails, err := s.try(ctx, out, []string{id}, "without "+id)
		if err != nil {
			return false, err
		}
		dropped = dropped || fails
	}
	return dropped, nil
}

// try carries out what is left without some, and keeps that if it fails.
func (s Shrinking) try(ctx context.Context, out *Shrunk, without []string, about string) (bool, error) {
	if s.Tell != nil {
		s.Tell(fmt.Sprintf("%s: %d of %d faults", about, len(out.Left)-len(without), len(out.Left)+len(out.Dropped)))
	}
	out.Trials++
	p := s.Plan.Without(append(slices.Clone(out.Dropped), without...)...)
	fails, err := s.Fails(ctx, p)
	if err != nil {
		return false, fmt.Errorf("%s: %w", about, err)
	}
	if fails && len(without) > 0 {
		out.Plan, out.Dropped = p, append(out.Dropped, without...)
		out.Left = slices.DeleteFunc(out.Left, func(id string) bool { return slices.Contains(without, id) })
	}
	return fails, nil
}

func faultsOf(p *scenarios.Plan) (ids []string) {
	for _, s := range p.Timeline {
		if s.Fault {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
