package chaos

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
	return Allowed(ctx, s.Client, s.Namespace)
}

// Allowed is nil if the owner of a namespace, on a cluster that is not ours, allows that things are broken in it.
func Allowed(ctx context.Context, client kubernetes.Interface, namespace string) error {
	ns, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster is not one that shakedown made, and has no namespace %s with the label %s=%s", namespace, AllowLabel, AllowValue)
	}
	if err != nil {
		return fmt.Errorf("look for the label %s of namespace %s: %w", AllowLabel, namespace, err)
	}
	if ns.Labels[AllowLabel] != AllowValue {
		return fmt.Errorf("the cluster is not one that shakedown made, and namespace %s has no label %s=%s", namespace, AllowLabel, AllowValue)
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
