package undo

import (
	"context"
	"fmt"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// DefaultTerm is for how long a runner may be silent before the janitor undoes what it changed.
const DefaultTerm = time.Minute

// holders of a run's Lease.
const (
	holderRunner  = "runner"
	holderJanitor = "janitor"
)

// LeaseName names the Lease of a run, which it holds for as long as it lives.
func LeaseName(run string) string { return "shakedown-run-" + run }

// Hold is a run's Lease in the cluster, renewed until Release: the sign of life that the janitor looks at.
type Hold struct {
	client kubernetes.Interface
	ns     string
	name   string
	stop   context.CancelFunc
	done   chan struct{}

	lost chan struct{}
}

// Take makes the Lease of a run and renews it three times a term, also past errors: while the API server is
// away nobody else can act on it either.
func Take(ctx context.Context, client kubernetes.Interface, ns, run string, term time.Duration) (*Hold, error) {
	seconds, holder, now := int32(term/time.Second), holderRunner, metav1.NowMicro()
	lease := &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: LeaseName(run), Namespace: ns, Labels: map[string]string{RunLabel: run}},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	if _, err := client.CoordinationV1().Leases(ns).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("take the lease of run %s: %w", run, err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &Hold{client: client, ns: ns, name: lease.Name, stop: stop, done: make(chan struct{}), lost: make(chan struct{})}
	go h.keep(ctx, term/3)
	return h, nil
}

// Lost is closed when the janitor has taken the Lease: the run was silent for too long, and what it changed
// is being undone.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// keep renews until ctx ends or somebody else holds the Lease.
func (h *Hold) keep(ctx context.Context, every time.Duration) {
	defer close(h.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		if ours := h.renew(ctx, every); !ours {
			close(h.lost)
			return
		}
	}
}

// renew says that the runner lives, and whether the Lease is still its own. Not to know is to assume so.
func (h *Hold) renew(ctx context.Context, within time.Duration) (ours bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	leases := h.client.CoordinationV1().Leases(h.ns)
	l, err := leases.Get(ctx, h.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	if err != nil {
		return true
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != holderRunner {
		return false
	}
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	_, _ = leases.Update(ctx, l, metav1.UpdateOptions{}) // the next one tells whether somebody else was first
	return true
}

// Release gives the Lease up, which ends the janitor. It may be called again.
func (h *Hold) Release(ctx context.Context) error {
	h.stop()
	<-h.done
	err := h.client.CoordinationV1().Leases(h.ns).Delete(ctx, h.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("give up the lease %s: %w", h.name, err)
	}
	return nil
}
