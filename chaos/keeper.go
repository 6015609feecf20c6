package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

// Bounds of the waits that a scenario does not set.
const (
	DefaultBite = 3 * time.Minute // to prove that it bites: timeout: in the vocabulary
	DefaultHeal = 5 * time.Minute // to heal and to prove that
	healthBound = 10 * time.Second
	eachBound   = time.Hour // of all targets together, where timeout is for each
)

// Keeper carries the faults of one run through their lives, and has each step in the history. Its methods
// may be called by many goroutines; each returns what went wrong after it was recorded.
type Keeper struct {
	World World
	Undo  *undo.Log
	// Record takes the events: history.Recorder.Record.
	Record func(history.Event)
	// Health is nil if the system is well, or says what is wrong; it is asked before each fault. Nil: at
	// least one pod of each component in World.Labels is ready.
	Health func(ctx context.Context) error
	// HealBound is how long healing and its proof may take; 0 is DefaultHeal.
	HealBound time.Duration
	Log       *slog.Logger

	mu   sync.Mutex
	held []*Held
}

// Held is a fault that was injected.
type Held struct {
	Step scenarios.Step

	keeper    *Keeper
	fault     history.Fault // what all its events say
	injection Injection
	healing   atomic.Bool
	over      chan struct{} // closed when healing begins: ends the wait of for:
	done      chan struct{}
	err       error
}

// Done is closed when the fault was healed, or was not within its bound; then Err says which.
func (h *Held) Done() <-chan struct{} { return h.done }

// Err is nil until Done, and after it if the fault was healed and that was proved.
func (h *Held) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Check says which of the steps' faults cannot be carried out here, all at once, before anything starts.
func (k *Keeper) Check(ctx context.Context, steps []scenarios.Step) error {
	var errs []error
	for _, s := range faults(steps) {
		f, err := At(k.World, k.Undo, s.ID, *s.Do, Hooks{})
		if err == nil {
			err = f.Available(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.ID, err))
		}
	}
	return errors.Join(errs...)
}

// Planned records that the steps' faults are due some time.
func (k *Keeper) Planned(steps []scenarios.Step) {
	for _, s := range faults(steps) {
		k.record(describe(s), history.FaultPlanned, nil, 0)
	}
}

func faults(steps []scenarios.Step) (out []scenarios.Step) {
	for _, s := range steps {
		if s.Fault && s.Do != nil {
			out = append(out, s)
		}
	}
	return out
}

// Inject breaks what the step says, and returns when it is proved that it bites: at most after the step's
// timeout. A fault that does not last heals by itself from then on; one with for: after that time; all
// others by Heal or Close. An error is one of ErrUnavailable, ErrEmpty, ErrNotInjected, ErrNotBitten, and
// what was half done is then healed before it returns. Due is when it should have begun, 0 if unknown.
func (k *Keeper) Inject(ctx context.Context, step scenarios.Step, due time.Duration) (*Held, error) {
	h := &Held{Step: step, keeper: k, fault: describe(step), over: make(chan struct{}), done: make(chan struct{})}
	fault, err := At(k.World, k.Undo, step.ID, *step.Do, Hooks{
		Hit: func(targets []history.Target) {
			h.fault.Targets = targets
			k.record(h.fault, history.FaultInject, nil, due)
		},
		Undone: func(r undo.Result) { k.Record(UndoEvent(r)) },
	})
	if err == nil {
		err = fault.Available(ctx)
	}
	if err != nil {
		k.record(h.fault, stageOf(err), err, due)
		return nil, err
	}
	k.lookBefore(ctx, step)
	if err := h.bite(ctx, fault); err != nil {
		return nil, err
	}
	h.last()
	return h, nil
}

// bite injects and settles. If that fails it heals what was done.
func (h *Held) bite(ctx context.Context, fault Fault) error {
	ctx, cancel := context.WithTimeout(ctx, h.bound())
	defer cancel()
	var err error
	h.injection, err = fault.Inject(ctx)
	if h.injection != nil {
		h.keeper.hold(h)
	}
	if err != nil {
		if !errors.Is(err, ErrEmpty) {
			err = fmt.Errorf("%s: %w: %w", h.Step.ID, ErrNotInjected, err)
		}
		return h.giveUp(ctx, err)
	}
	proof, err := h.injection.Settle(ctx)
	if err == nil && proof == "" {
		err = errors.New("no proof was given")
	}
	h.detail()
	if err != nil {
		return h.giveUp(ctx, fmt.Errorf("%s: %w: %w", h.Step.ID, ErrNotBitten, err))
	}
	bit := h.fault
	bit.Proof = proof
	h.keeper.record(bit, history.FaultBit, nil, 0)
	return nil
}

// giveUp records why a fault does not count and heals what it may have changed.
func (h *Held) giveUp(ctx context.Context, err error) error {
	h.keeper.record(h.fault, stageOf(err), err, 0)
	if h.injection != nil {
		err = errors.Join(err, h.heal(ctx))
	}
	return err
}

func (h *Held) bound() time.Duration {
	if kind, _ := Find(h.Step.Do.Action); kind.each {
		return eachBound
	}
	if d := h.Step.Do.Args.Duration("timeout"); d > 0 {
		return d
	}
	return DefaultBite
}

func (h *Held) detail() {
	if d, ok := h.injection.(Detailer); ok {
		h.fault.Detail = d.Detail()
	}
}

// last lets the fault be in force for as long as it should.
func (h *Held) last() {
	wait := h.Step.Do.Args.Duration("for")
	if h.Step.Lasting && wait == 0 {
		return
	}
	go func() {
		select {
		case <-h.over:
		case <-time.After(wait):
		}
		_ = h.heal(context.Background()) // recorded, and returned by Close
	}()
}

// heal heals and proves it, once; later callers wait for the first.
func (h *Held) heal(ctx context.Context) error {
	if h.healing.CompareAndSwap(false, true) {
		close(h.over)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.keeper.healBound())
		defer cancel()
		h.err = h.healWithin(ctx)
		h.keeper.release(h)
		close(h.done)
	}
	<-h.done
	return h.err
}

func (h *Held) healWithin(ctx context.Context) error {
	h.keeper.record(h.fault, history.FaultHeal, nil, 0)
	err := h.injection.Heal(ctx)
	var proof string
	if err == nil {
		proof, err = h.injection.Healed(ctx)
	}
	if err == nil && proof == "" {
		err = errors.New("no proof was given")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", h.Step.ID, ErrNotHealed, err)
		h.keeper.record(h.fault, history.FaultNotHealed, err, 0)
		return err
	}
	healed := h.fault
	healed.Proof = proof
	h.keeper.record(healed, history.FaultHealed, nil, 0)
	return nil
}

// Heal ends the faults that the timeline entry of that name or ID brought, the last first, and returns
// when it is proved that they healed. None in force is an error.
func (k *Keeper) Heal(ctx context.Context, of string) error {
	var errs []error
	found := false
	for _, h := range k.holding() {
		if h.Step.Name == of || h.Step.ID == of {
			found = true
			errs = append(errs, h.heal(ctx))
		}
	}
	if !found {
		return fmt.Errorf("heal %s: it has no fault in force", of)
	}
	return errors.Join(errs...)
}

// Close heals all that is still in force, the last first, also under a ctx that has ended, and then
// everything in the undo log that is left. What could not be undone is exit code 4.
func (k *Keeper) Close(ctx context.Context) (unhealed []undo.Result, err error) {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, h := range k.holding() {
		errs = append(errs, h.heal(ctx))
	}
	results := k.Undo.Heal(ctx, undo.Cluster{Client: k.World.Client, Cluster: k.World.Cluster})
	for _, r := range results {
		k.Record(UndoEvent(r))
	}
	return undo.Failed(results), errors.Join(errs...)
}

// UndoEvent is the history's event of a result.
func UndoEvent(r undo.Result) history.Event {
	u := history.Undo{ID: r.Entry.Name(), What: r.Entry.Change.What, Tries: r.Tries, Checked: r.Checked}
	outcome := history.OK
	if r.Err != nil {
		u.Error, outcome = r.Err.Error(), history.Failed
	}
	return history.Event{Subject: r.Entry.Change.What, Outcome: outcome, Data: u}
}

func (k *Keeper) healBound() time.Duration {
	if k.HealBound > 0 {
		return k.HealBound
	}
	return DefaultHeal
}

func (k *Keeper) logger() *slog.Logger {
	if k.Log != nil {
		return k.Log
	}
	return slog.New(slog.DiscardHandler)
}
