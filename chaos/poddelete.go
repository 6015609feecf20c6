package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/undo"
)

var podDelete = Kind{
	Name:    "podDelete",
	Proof:   "no ready endpoint has the pod's UID any more; of a pod without Service, the API has no pod of that UID",
	Healed:  "the workload that owned it has all its replicas ready, and the old UIDs are gone",
	Where:   "any cluster; pods that no Deployment, StatefulSet or DaemonSet brings back are refused",
	Example: "podDelete: {select: {component: proxy, count: 1}, gracePeriod: 0s}",
	Slow:    slowPods,
	inject: func(ctx context.Context, s *Site) (Injection, error) {
		return s.removePods(ctx, func(ctx context.Context, p *corev1.Pod) error {
			opts := metav1.DeleteOptions{GracePeriodSeconds: s.grace(), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
			return s.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, opts)
		})
	},
}

// grace is the parameter gracePeriod in whole seconds; nil leaves it to the pod.
func (s *Site) grace() *int64 {
	if !s.Do.Args.Has("gracePeriod") {
		return nil
	}
	n := int64(s.Do.Args.Duration("gracePeriod") / time.Second)
	return &n
}

// removal is pods that are on their way out.
type removal struct {
	site   *Site
	pods   []corev1.Pod
	owners []owner // of each pod
	served map[types.UID]bool
	began  time.Time
}

// removePods selects pods and has each of them removed, with every: in between.
func (s *Site) removePods(ctx context.Context, remove func(context.Context, *corev1.Pod) error) (Injection, error) {
	pods, err := s.HitPods(ctx)
	if err != nil {
		return nil, err
	}
	r := &removal{site: s, pods: pods, began: time.Now()}
	if err := r.know(ctx); err != nil {
		return nil, err
	}
	e := effect{site: s, settle: r.settle, healed: r.healed}
	for i := range pods {
		if i > 0 {
			if err := pause(ctx, s.Do.Args.Duration("every")); err != nil {
				return e, err
			}
		}
		if err := r.one(ctx, i, remove); err != nil {
			if !s.changed() {
				return nil, err
			}
			return e, err
		}
	}
	return e, nil
}

// know looks at everything that the proofs will be compared with, before anything is changed.
func (r *removal) know(ctx context.Context) (err error) {
	for i := range r.pods {
		o, err := r.site.ownerOf(ctx, &r.pods[i])
		if err != nil {
			return err
		}
		r.owners = append(r.owners, o)
	}
	r.served, err = r.site.endpoints(ctx)
	return err
}

func (r *removal) one(ctx context.Context, i int, remove func(context.Context, *corev1.Pod) error) error {
	p := &r.pods[i]
	change := undo.Change{Kind: undo.PodsRemoved, What: "remove pod " + p.Name, Object: r.owners[i].object()}
	return r.site.Change(ctx, change, func(ctx context.Context) error {
		err := remove(ctx, p)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return fmt.Errorf("it vanished before it was hit: %w", err)
		}
		return err
	})
}

// settle sees that nobody is sent to the pods any more. A pod that was behind no Service has to be gone.
func (r *removal) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		served, err := r.site.endpoints(ctx)
		if err != nil {
			return "", err
		}
		there, err := r.site.uids(ctx)
		if err != nil {
			return "", err
		}
		var left []string
		for _, p := range r.pods {
			if served[p.UID] || (!r.served[p.UID] && there[p.UID]) {
				left = append(left, p.Name)
			}
		}
		if len(left) > 0 {
			return "", fmt.Errorf("%s still there", strings.Join(left, ", "))
		}
		return r.proof(there), nil
	})
}

func (r *removal) proof(there map[types.UID]bool) string {
	var said []string
	for _, p := range r.pods {
		what := "is gone"
		if r.served[p.UID] {
			what = "left the ready endpoints"
			if !there[p.UID] {
				what += " and is gone"
			}
		}
		said = append(said, fmt.Sprintf("pod %s (UID %s) %s", p.Name, p.UID, what))
	}
	return fmt.Sprintf("%s, %s after the start", strings.Join(said, "; "), seconds(time.Since(r.began)))
}

// healed sees that the workloads have all their replicas ready and that none of them is one of the old.
func (r *removal) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		there, err := r.site.uids(ctx)
		if err != nil {
			return "", err
		}
		for _, p := range r.pods {
			if there[p.UID] {
				return "", fmt.Errorf("pod %s is still going", p.Name)
			}
		}
		return r.site.allReady(ctx, r.owners)
	})
}

// allReady says that each of the workloads has all its replicas ready, or which has not.
func (w World) allReady(ctx context.Context, owners []owner) (string, error) {
	var said []string
	var errs []error
	seen := map[owner]bool{}
	for _, o := range owners {
		if seen[o] {
			continue
		}
		seen[o] = true
		n, err := w.replicas(ctx, o)
		if apierrors.IsNotFound(err) && o.namespace != w.Namespace {
			continue // others take their own things away while we work
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		text, err := w.readyOrWorking(ctx, o, n)
		errs = append(errs, err)
		said = append(said, text)
	}
	return strings.Join(said, ", "), errors.Join(errs...)
}
