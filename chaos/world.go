package chaos

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

// World is the place that faults act on. Client, Namespace and Run are needed by all of them; a fault
// that needs something else and does not find it says so in Available.
type World struct {
	Client    kubernetes.Interface
	REST      *rest.Config // for commands in containers
	Namespace string       // where the system under test lives
	Run       string       // ID of the run, a valid label value
	// Labels select the pods of a component; without an entry it is app.kubernetes.io/component=NAME.
	Labels map[string]string
	// Control selects the pods of the control arm, whose nodes are spared. Empty: there is none.
	Control string
	// Cluster is asked for what it can do: clusters.NodeOperator, clusters.Overseer.
	Cluster clusters.Cluster
	// Sessions counts the sessions that each pod carries now, for by: mostSessions.
	Sessions func() map[types.UID]int
	// Works knows of pods that are not ready and do their work all the same; they count as healed. Nil: none.
	Works Works
	// Leader is the pod of a component that leads, for by: leader.
	Leader func(ctx context.Context, component string) (types.UID, error)
}

func (w World) selector(component string) string {
	if s, ok := w.Labels[component]; ok {
		return s
	}
	return "app.kubernetes.io/component=" + component
}

// operator is who can do the action to nodes, or why nobody can.
func (w World) operator(action clusters.NodeAction) (clusters.NodeOperator, error) {
	op, ok := w.Cluster.(clusters.NodeOperator)
	if !ok {
		return nil, errors.New("this cluster's provider cannot do anything to nodes")
	}
	if err := op.Available(action); err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return op, nil
}

// Site is a World with one aimed action: what a fault's code works with.
type Site struct {
	World
	Do      scenarios.Do
	ID      string // of the fault in this run
	log     *undo.Log
	hooks   Hooks
	entries []undo.Entry
	dns     resolver // nil: not known yet
}

// Hooks are told what a fault does, while it does it. Each may be nil.
type Hooks struct {
	Hit    func([]history.Target) // the targets, before anything is changed
	Undone func(undo.Result)
}

// At aims the action of a step. The log gets every change before it is made.
func At(w World, log *undo.Log, id string, do scenarios.Do, hooks Hooks) (Fault, error) {
	kind, err := Find(do.Action)
	if err != nil {
		return nil, err
	}
	if hooks.Hit == nil {
		hooks.Hit = func([]history.Target) {}
	}
	if hooks.Undone == nil {
		hooks.Undone = func(undo.Result) {}
	}
	return aimed{kind, &Site{World: w, Do: do, ID: id, log: log, hooks: hooks}}, nil
}

// Change writes the intent, makes the change, and writes the result. If the intent cannot be written
// nothing is changed.
func (s *Site) Change(ctx context.Context, c undo.Change, change func(context.Context) error) error {
	e, err := s.intend(ctx, c)
	if err != nil {
		return err
	}
	result := change(ctx)
	if err := errors.Join(result, s.log.Made(e, result)); err != nil {
		return fmt.Errorf("%s: %w", c.What, err)
	}
	return nil
}

// intend writes what is about to be changed.
func (s *Site) intend(ctx context.Context, c undo.Change) (undo.Entry, error) {
	c.Fault = s.ID
	e, err := s.log.Intend(ctx, c)
	if err == nil {
		s.entries = append(s.entries, e)
	}
	return e, err
}

// Undo undoes what this site changed, the last first.
func (s *Site) Undo(ctx context.Context) error {
	var errs []error
	for _, e := range s.log.Pending() {
		if e.Change.Fault != s.ID {
			continue
		}
		for _, r := range s.log.Undo(ctx, s.undoer(), e) {
			s.hooks.Undone(r)
			if r.Err != nil {
				errs = append(errs, fmt.Errorf("undo %s: %w", e.Change.What, r.Err))
			}
		}
	}
	return errors.Join(errs...)
}

// changed says whether anything may have been changed.
func (s *Site) changed() bool { return len(s.entries) > 0 }

func (s *Site) undoer() undo.Undoer {
	return undo.Cluster{Client: s.Client, Cluster: s.Cluster}
}
