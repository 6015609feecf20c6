package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// describe is what all events of a step's fault say.
func describe(s scenarios.Step) history.Fault {
	f := history.Fault{ID: s.ID, Name: s.Do.Action, Entry: s.Name, Params: map[string]string{}}
	for name, value := range s.Do.Args {
		f.Params[name] = fmt.Sprint(value)
	}
	for _, name := range sortedKeys(s.Do.Selects) {
		if f.Selector != "" {
			f.Selector += "; " + name + ": "
		}
		f.Selector += s.Do.Selects[name].String()
	}
	return f
}

func (k *Keeper) record(f history.Fault, stage history.FaultStage, err error, due time.Duration) {
	f.Stage = stage
	e := history.Event{Due: due, Subject: f.ID}
	switch stage {
	case history.FaultBit, history.FaultHealed:
		e.Outcome = history.OK
	case history.FaultPlanned, history.FaultInject, history.FaultHeal:
	default:
		e.Outcome = history.Failed
	}
	if err != nil {
		f.Error = err.Error()
		k.logger().Warn("fault", "id", f.ID, "name", f.Name, "stage", stage, "error", err)
	} else {
		k.logger().Info("fault", "id", f.ID, "name", f.Name, "stage", stage, "proof", f.Proof)
	}
	e.Data = f
	k.Record(e)
}

// lookBefore records whether the system is well before a fault, which decides whether its losses can be
// blamed on it.
func (k *Keeper) lookBefore(ctx context.Context, step scenarios.Step) {
	look := k.Health
	if look == nil {
		look = k.World.eachReady
	}
	ctx, cancel := context.WithTimeout(ctx, healthBound)
	defer cancel()
	health := history.Health{When: "before", Of: step.ID, Well: true}
	if err := look(ctx); err != nil {
		health.Well, health.Detail = false, err.Error()
	}
	k.Record(history.Event{Subject: step.ID, Data: health})
}

// eachReady is nil if at least one pod of each known component is ready.
func (w World) eachReady(ctx context.Context) error {
	var bad []string
	for _, component := range sortedKeys(w.Labels) {
		list, err := w.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: w.Labels[component]})
		if err != nil {
			return fmt.Errorf("look at %s: %w", component, err)
		}
		ready := 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		if ready == 0 {
			bad = append(bad, fmt.Sprintf("none of %d pods of %s is ready", len(list.Items), component))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s", strings.Join(bad, "; "))
	}
	return nil
}

func (k *Keeper) hold(h *Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, h)
}

func (k *Keeper) release(h *Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = slices.DeleteFunc(k.held, func(x *Held) bool { return x == h })
}

// holding are the faults in force, the newest first.
func (k *Keeper) holding() []*Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Clone(k.held)
	slices.Reverse(out)
	return out
}
