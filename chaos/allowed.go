package chaos

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The label of a namespace whose owner allows faults. On a cluster that Shakedown did not make nothing is
// broken without it.
const (
	AllowLabel = "shakedown.dev/faults"
	AllowValue = "allowed"
)

// allowed is nil if things may be broken here: the cluster is ours, or the namespace's owner said so.
func allowed(ctx context.Context, s *Site) error {
	if s.Cluster != nil {
		facts, err := s.Cluster.Facts(ctx)
		if err != nil {
			return fmt.Errorf("ask the cluster whose it is: %w", err)
		}
		if facts.Owned {
			return nil
		}
	}
	ns, err := s.Client.CoreV1().Namespaces().Get(ctx, s.Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look for the label %s of namespace %s: %w", AllowLabel, s.Namespace, err)
	}
	if ns.Labels[AllowLabel] != AllowValue {
		return fmt.Errorf("the cluster is not one that shakedown made, and namespace %s has no label %s=%s", s.Namespace, AllowLabel, AllowValue)
	}
	return nil
}

// selectable is nil if everything that the selections order by is known here.
func selectable(_ context.Context, s *Site) error {
	for _, name := range sortedKeys(s.Do.Selects) {
		sel := s.Do.Selects[name]
		switch {
		case (sel.By == "mostSessions" || sel.By == "fewestSessions") && s.Sessions == nil:
			return fmt.Errorf("select %s: nobody counts sessions", sel)
		case sel.By == "leader" && s.Leader == nil:
			return fmt.Errorf("select %s: nobody knows who leads", sel)
		}
	}
	return nil
}
