package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var podEvict = Kind{
	Name:    "podEvict",
	Proof:   podDelete.Proof,
	Healed:  podDelete.Healed,
	Where:   "any cluster; a budget that refuses is waited for, and told",
	Example: "podEvict: {select: {component: proxy, count: 1}}",
	Slow:    slowPods,
	inject: func(ctx context.Context, s *Site) (Injection, error) {
		b := newBlocks(s.Client)
		injection, err := s.removePods(ctx, func(ctx context.Context, p *corev1.Pod) error { return s.evict(ctx, b, p) })
		if e, is := injection.(effect); is {
			e.detail = b.String
			return e, err
		}
		return injection, err
	},
}

// evict tries until the budgets allow it or ctx ends.
func (s *Site) evict(ctx context.Context, b *blocks, p *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: s.grace(), Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
	}
	evictions := b.watch().PolicyV1().Evictions(p.Namespace)
	for {
		err := evictions.Evict(ctx, eviction)
		if !apierrors.IsTooManyRequests(err) {
			return err
		}
		if pause(ctx, evictRetry) != nil {
			return fmt.Errorf("eviction of %s %s: %w", p.Name, b, err)
		}
	}
}
