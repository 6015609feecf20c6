package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/undo"
)

// upping says what up does.
func (r *runner) upping(name string) string {
	if r.Reuse != "" {
		return "Taking cluster " + name
	}
	return "Bringing up cluster " + name
}

// up brings the run's cluster up, or takes the kept one that it was told to reuse.
func (r *runner) up(ctx context.Context, spec clusters.Spec) (err error) {
	if r.Reuse != "" {
		r.stays = true
		if _, err := clusters.Find(ctx, r.provider, r.Reuse); err != nil {
			if errors.Is(err, clusters.ErrNotFound) {
				err = exit.Hint(exit.With(exit.Usage, err), "shakedown cluster list names those that there are; --keep always keeps one, and cluster up makes one")
			}
			return err
		}
	}
	r.cluster, err = r.provider.Up(ctx, spec)
	return err
}

// occupy keeps other runs off a cluster that outlives this one, and clears what earlier ones left in it. free gives it
// to others; it is never nil.
func (r *runner) occupy(ctx context.Context) (free func(), err error) {
	free = func() {}
	if r.ProviderName == onExisting || r.Reuse == "" && r.Keep != KeepAlways && r.Keep != KeepOnFailure {
		return free, nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return free, err
	}
	c := &claim{client: client, run: r.env.Run}
	if err := c.take(ctx); err != nil {
		return free, exit.With(exit.Usage, &clusters.NameError{Name: r.cluster.Name(), Err: err})
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); c.keep(ctx) }()
	free = func() {
		stop()
		<-done
		c.free()
	}
	if r.Reuse == "" {
		return free, nil
	}
	return free, r.clear(ctx, client)
}

// clear takes away what earlier runs installed. What they changed and did not undo is for heal, which knows how.
func (r *runner) clear(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	unhealed, err := undo.Runs(ctx, client)
	if err != nil {
		return err
	}
	if len(unhealed) > 0 {
		return exit.Hint(&clusters.NameError{Name: r.Reuse, Err: fmt.Errorf("changes of run %s are not undone", strings.Join(unhealed, ", "))},
			fmt.Sprintf("shakedown heal %s --name %s", unhealed[0], r.Reuse))
	}
	lefts, err := helm.Lefts(ctx, client, metav1.NamespaceAll, "")
	if err != nil {
		return err
	}
	config, err := r.cluster.RESTConfig(ctx)
	if err != nil {
		return err
	}
	for _, left := range lefts {
		err := r.step("Taking away what run "+left.Run+" left", func() error {
			return helm.Leave(ctx, config, left.Namespace, left.Run, r.Log)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claim is a Lease by which runs know that a cluster is taken. One whose runner is dead is over after its term.
type claim struct {
	client kubernetes.Interface
	run    string
}

const (
	claimName = "shakedown-claim"
	claimNS   = metav1.NamespaceSystem
	claimTerm = 30 * time.Second
)

// take is nil if the cluster is this run's now.
func (c *claim) take(ctx context.Context) error {
	leases := c.client.CoordinationV1().Leases(claimNS)
	wanted := c.lease(metav1.NowMicro())
	for range 3 { // others may take or free it meanwhile
		_, err := leases.Create(ctx, wanted, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		have, err := leases.Get(ctx, claimName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if by := holder(have); by != c.run && time.Since(have.Spec.RenewTime.Time) < claimTerm {
			return fmt.Errorf("run %s is using it", by)
		}
		wanted.ResourceVersion = have.ResourceVersion
		if _, err = leases.Update(ctx, wanted, metav1.UpdateOptions{}); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		wanted.ResourceVersion = ""
	}
	return errors.New("other runs are taking it")
}

func (c *claim) lease(now metav1.MicroTime) *coordv1.Lease {
	seconds := int32(claimTerm / time.Second)
	return &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: claimNS},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &c.run, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}

func holder(l *coordv1.Lease) string {
	if l.Spec.HolderIdentity == nil || l.Spec.RenewTime == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// keep renews the claim until ctx ends. While the API server is away nobody else can take it either.
func (c *claim) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(claimTerm / 3):
		}
		c.each(ctx, func(ctx context.Context, l *coordv1.Lease) error {
			now := metav1.NowMicro()
			l.Spec.RenewTime = &now
			_, err := c.client.CoordinationV1().Leases(claimNS).Update(ctx, l, metav1.UpdateOptions{})
			return err
		})
	}
}

// free gives the claim up.
func (c *claim) free() {
	c.each(context.Background(), func(ctx context.Context, l *coordv1.Lease) error {
		return c.client.CoordinationV1().Leases(claimNS).Delete(ctx, claimName, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(l.UID))})
	})
}

// each does something with the claim if it is still this run's. That it fails is no harm: the claim ends by itself.
func (c *claim) each(ctx context.Context, do func(context.Context, *coordv1.Lease) error) {
	ctx, cancel := context.WithTimeout(ctx, claimTerm/3)
	defer cancel()
	l, err := c.client.CoordinationV1().Leases(claimNS).Get(ctx, claimName, metav1.GetOptions{})
	if err == nil && holder(l) == c.run {
		_ = do(ctx, l)
	}
}
