package undo

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Replicas are how many pods a workload wants, has and has ready.
type Replicas struct{ Want, Have, Ready int }

// ReplicasOf reads them from a Deployment, StatefulSet, DaemonSet or ReplicaSet.
func ReplicasOf(o metav1.Object) (Replicas, bool) {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return replicas(w.Spec.Replicas, w.Status.Replicas, w.Status.ReadyReplicas), true
	case *appsv1.StatefulSet:
		return replicas(w.Spec.Replicas, w.Status.Replicas, w.Status.ReadyReplicas), true
	case *appsv1.ReplicaSet:
		return replicas(w.Spec.Replicas, w.Status.Replicas, w.Status.ReadyReplicas), true
	case *appsv1.DaemonSet:
		s := w.Status
		return Replicas{int(s.DesiredNumberScheduled), int(s.CurrentNumberScheduled), int(s.NumberReady)}, true
	}
	return Replicas{}, false
}

func replicas(want *int32, have, ready int32) Replicas {
	r := Replicas{Want: 1, Have: int(have), Ready: int(ready)}
	if want != nil {
		r.Want = int(*want)
	}
	return r
}

// podsBack changes nothing: it sees that the workload has made its pods again. Whether they are ready may
// depend on much that is not the fault's.
func (c Cluster) podsBack(ctx context.Context, e Entry) (string, error) {
	_, found, err := c.object(ctx, e)
	if err != nil {
		return ok("", err)
	}
	r, isWorkload := ReplicasOf(found)
	if !isWorkload {
		return "", fmt.Errorf("%w: %s has no replicas", ErrFinal, e.Change.Object)
	}
	if r.Have < r.Want {
		return "", fmt.Errorf("%s has %d of %d pods", e.Change.Object, r.Have, r.Want)
	}
	return fmt.Sprintf("%s has %d of %d pods", e.Change.Object, r.Have, r.Want), nil
}
