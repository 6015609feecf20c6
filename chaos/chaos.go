// Package chaos breaks things in a cluster on purpose. A fault that silently did nothing turns a test
// green, and one that stays behind turns a cluster red, so each fault proves that it bites and that it
// healed, by an observation that is not the success of its own call.
//
// A single fault is dumb: it selects, changes through the undo log, and looks. The Keeper around it owns
// all the rest: the system's health before, time limits, events, healing and what is left at the end.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shakedown.dev/shakedown/history"
)

// Fault is one way to break something, aimed but not yet carried out.
type Fault interface {
	Name() string
	// Available is nil, or says why this cluster cannot do it. It changes nothing.
	Available(ctx context.Context) error
	// Inject selects the targets and breaks them. It returns an Injection even beside an error if
	// anything may have changed.
	Inject(ctx context.Context) (Injection, error)
}

// Injection is a fault in force. Its methods end with ctx.
type Injection interface {
	// Settle waits until it is seen to bite, and says what was seen. It only looks.
	Settle(ctx context.Context) (proof string, err error)
	// Heal undoes it. It may be called again, also when it half worked.
	Heal(ctx context.Context) error
	// Healed waits until all is seen to be as before, and says what was seen. It only looks.
	Healed(ctx context.Context) (proof string, err error)
}

// Detailer is what an Injection also is if it has more to tell than its proof, such as what blocked a drain.
type Detailer interface{ Detail() string }

// Kind is one row of the kit: a word of the scenarios' vocabulary and how it is carried out.
type Kind struct {
	Name    string // as in scenarios.Words
	Proof   string // what shows that it bites, for docs/faults.md
	Healed  string // what shows that it healed
	Where   string // where it is available
	Example string // what stands after do:
	// Slow is what healing may wait for once the fault has ended. Empty: it is over within HealTime.
	Slow string
	// each: the parameter timeout is for each target, and the fault keeps to it by itself.
	each bool

	available func(ctx context.Context, s *Site) error
	inject    func(ctx context.Context, s *Site) (Injection, error)
}

// HealTime is how long a fault that waits for nothing may take to heal, with proof.
const HealTime = 5 * time.Second

// Reasons why a fault did not count. Each makes a run inconclusive.
var (
	ErrUnavailable = errors.New("not available here")
	ErrEmpty       = errors.New("nothing selected")
	ErrNotInjected = errors.New("not injected")
	ErrNotBitten   = errors.New("did not prove that it bit")
	ErrNotHealed   = errors.New("did not prove that it healed")
)

// stages are the events that the reasons become.
var stages = []struct {
	err   error
	stage history.FaultStage
}{
	{ErrUnavailable, history.FaultUnavailable},
	{ErrEmpty, history.FaultEmpty},
	{ErrNotBitten, history.FaultNotBitten},
	{ErrNotHealed, history.FaultNotHealed},
}

func stageOf(err error) history.FaultStage {
	for _, s := range stages {
		if errors.Is(err, s.err) {
			return s.stage
		}
	}
	return history.FaultFailed
}

// Find is the kind of that name.
func Find(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("fault %s: %w: this version does not know it", name, ErrUnavailable)
}

// Names are the names of all kinds that this version can carry out, for scenarios.Vocabulary.Only.
func Names() []string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// aimed is a Kind at a Site: the only implementation of Fault.
type aimed struct {
	kind Kind
	site *Site
}

func (a aimed) Name() string { return a.kind.Name }

func (a aimed) Available(ctx context.Context) error {
	for _, check := range []func(context.Context, *Site) error{allowed, selectable, a.kind.available} {
		if check == nil {
			continue
		}
		if err := check(ctx, a.site); err != nil {
			return fmt.Errorf("%s: %w: %w", a.kind.Name, ErrUnavailable, err)
		}
	}
	return nil
}

func (a aimed) Inject(ctx context.Context) (Injection, error) { return a.kind.inject(ctx, a.site) }

// effect is an Injection of functions, which is what a fault's few lines are. Without a heal it undoes
// what its Site changed.
type effect struct {
	site   *Site
	settle func(ctx context.Context) (string, error)
	heal   func(ctx context.Context) error
	healed func(ctx context.Context) (string, error)
	detail func() string
}

func (e effect) Settle(ctx context.Context) (string, error) { return e.settle(ctx) }

func (e effect) Heal(ctx context.Context) error {
	if e.heal != nil {
		return e.heal(ctx)
	}
	return e.site.Undo(ctx)
}

func (e effect) Healed(ctx context.Context) (string, error) { return e.healed(ctx) }

func (e effect) Detail() string {
	if e.detail == nil {
		return ""
	}
	return e.detail()
}
