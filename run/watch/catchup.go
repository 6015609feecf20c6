package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CatchUp returns when the State knows of every change that was made to the workloads until now. A watch tells
// of a change a moment after whoever made it is told that it is made: without CatchUp a question such as
// Settled, asked in between, is answered by how things were before.
func (w *Watcher) CatchUp(ctx context.Context) error {
	now, err := w.workloadsNow(ctx)
	if err != nil {
		return fmt.Errorf("look at the workloads: %w", err)
	}
	return w.cfg.State.Await(ctx, func() error {
		for _, l := range now {
			if l.component != "" && !w.cfg.State.knows(l) {
				return fmt.Errorf("the watch has not told of the change of %s %s yet", l.kind, l.name)
			}
		}
		return nil
	})
}

// workloadsNow asks the API server itself.
func (w *Watcher) workloadsNow(ctx context.Context) (out []workload, err error) {
	apps := w.cfg.Client.AppsV1()
	deployments, err := apps.Deployments(w.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	sets, err := apps.StatefulSets(w.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range deployments.Items {
		out = append(out, ofDeployment(&deployments.Items[i]))
	}
	for i := range sets.Items {
		out = append(out, ofStatefulSet(&sets.Items[i]))
	}
	return out, nil
}

// knows says whether a workload was seen at least as it is there.
func (s *State) knows(l workload) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, seen := range s.workloads[l.component] {
		if seen.uid == l.uid {
			return seen.generation >= l.generation
		}
	}
	return false
}
