package undo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Janitor undoes what a run changed when the runner has vanished. It works by the API alone, so that it may
// run inside the cluster: what takes the cluster's provider stays in the copy of the intents, for heal.
type Janitor struct {
	Client    kubernetes.Interface
	Namespace string // of the Lease and of the intents
	Run       string
	Every     time.Duration // how often the Lease is looked at; 0: every 2 s
	TryFor    time.Duration // for how long is tried to undo one change; 0: Patience
	Log       *slog.Logger
}

// Do watches the run's Lease until it is gone, which is the run's own end, or until it was not renewed for
// its whole term while the API server answered; then it takes the Lease and undoes everything. Times are
// this process's own: clocks of other machines say nothing here. It returns what was undone.
func (j Janitor) Do(ctx context.Context) ([]Result, error) {
	vanished, err := j.vanished(ctx)
	if err != nil || vanished == nil {
		return nil, err
	}
	j.Log.Warn("the runner has vanished", "run", j.Run)
	if err := j.take(ctx, vanished); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return j.Do(ctx) // it was not dead: it renewed at this moment, or ended
		}
		return nil, fmt.Errorf("take the lease of run %s: %w", j.Run, err)
	}
	log, err := FromCluster(ctx, j.Client, j.Run)
	if err != nil {
		return nil, err
	}
	log.TryFor = j.TryFor
	results := log.Heal(ctx, Cluster{Client: j.Client})
	return results, j.drop(ctx)
}

// vanished is the Lease when its term has passed without a sign of life; nil when it is gone.
func (j Janitor) vanished(ctx context.Context) (*coordv1.Lease, error) {
	every := j.Every
	if every == 0 {
		every = 2 * time.Second
	}
	var seen string
	var since time.Time // first of the looks in a row that saw the same, all of which were answered
	for {
		l, err := j.look(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			j.Log.Info("the lease cannot be looked at", "err", err)
			seen = ""
		case seen != l.ResourceVersion+renewed(l):
			seen, since = l.ResourceVersion+renewed(l), time.Now()
		case time.Since(since) >= term(l):
			return l, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

func (j Janitor) look(ctx context.Context) (*coordv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return j.Client.CoordinationV1().Leases(j.Namespace).Get(ctx, LeaseName(j.Run), metav1.GetOptions{})
}

func renewed(l *coordv1.Lease) string {
	if l.Spec.RenewTime == nil {
		return ""
	}
	return l.Spec.RenewTime.String()
}

func term(l *coordv1.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return DefaultTerm
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

// take makes the Lease the janitor's, unless it was renewed since it was looked at: then a runner that only
// slept would go on beside it.
func (j Janitor) take(ctx context.Context, l *coordv1.Lease) error {
	l = l.DeepCopy()
	holder, now := holderJanitor, metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &now
	_, err := j.Client.CoordinationV1().Leases(j.Namespace).Update(ctx, l, metav1.UpdateOptions{})
	return err
}

// drop takes the Lease away.
func (j Janitor) drop(ctx context.Context) error {
	err := j.Client.CoordinationV1().Leases(j.Namespace).Delete(ctx, LeaseName(j.Run), metav1.DeleteOptions{})
	return ignoreNotFound(err)
}

// Leave removes the janitor of a run and the run's Lease from the cluster; all that was made for it goes with
// its namespace. What is gone already is no error.
func Leave(ctx context.Context, client kubernetes.Interface, ns, run string) error {
	opts := metav1.DeleteOptions{}
	return errors.Join(
		ignoreNotFound(client.CoordinationV1().Leases(ns).Delete(ctx, LeaseName(run), opts)),
		ignoreNotFound(client.CoreV1().Namespaces().Delete(ctx, JanitorName(run), opts)),
	)
}
