package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/undo"
)

// works counts the pods of a workload that are not ready and still do their work, as World.Works knows: readiness is
// what a pod says of itself, and an agent that lost its auth for a while goes on saying no for minutes.
func (w World) works(ctx context.Context, o owner) (n int, err error) {
	if w.Works == nil {
		return 0, nil
	}
	all, err := w.podsIn(ctx, o.namespace)
	if err != nil {
		return 0, err
	}
	for i := range all {
		p := &all[i]
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || saysReady(p) {
			continue
		}
		if of, err := w.ownerOf(ctx, p); err == nil && of == o && w.worked(p, time.Time{}) {
			n++
		}
	}
	return n, nil
}

func saysReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Works says of a pod that is not ready whether it did its work lately all the same, after since.
type Works func(pod types.UID, since time.Time) bool

// worked says whether a pod that stays did its work after since, as World.Works knows.
func (w World) worked(p *corev1.Pod, since time.Time) bool {
	return w.Works != nil && p.DeletionTimestamp == nil && w.Works(p.UID, since)
}

// readyOrWorking says that a workload has all its replicas ready, or working all the same, or that it has not.
func (w World) readyOrWorking(ctx context.Context, o owner, n undo.Replicas) (string, error) {
	text := fmt.Sprintf("%s has %d of %d ready", o, n.Ready, n.Want)
	if n.Ready >= n.Want {
		return text, nil
	}
	working, err := w.works(ctx, o)
	switch {
	case err != nil:
		return "", err
	case n.Ready+working < n.Want:
		return "", errors.New(text)
	}
	return fmt.Sprintf("%s, and %d that can be reached though not ready", text, working), nil
}
