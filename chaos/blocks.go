package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// blocks collects what refused evictions, and for how long. The API says so to whoever evicts (429), so
// the client that evicts is watched.
type blocks struct {
	client kubernetes.Interface

	mu    sync.Mutex
	since map[string]blocked // by namespace/pod: refused and not yet evicted
	past  []blocked
}

// blocked is one pod's eviction being refused.
type blocked struct {
	by       string // "PodDisruptionBudget teleport-proxy"
	why      string // "needs 2 healthy, has 2"
	from, to time.Time
}

func newBlocks(client kubernetes.Interface) *blocks {
	return &blocks{client: client, since: map[string]blocked{}}
}

// watch is the client, with every eviction noted.
func (b *blocks) watch() kubernetes.Interface { return watchedClient{b.client, b} }

type watchedClient struct {
	kubernetes.Interface
	blocks *blocks
}

func (c watchedClient) PolicyV1() policyclient.PolicyV1Interface {
	return watchedPolicy{c.Interface.PolicyV1(), c.blocks}
}

type watchedPolicy struct {
	policyclient.PolicyV1Interface
	blocks *blocks
}

func (p watchedPolicy) Evictions(ns string) policyclient.EvictionInterface {
	return watchedEvictions{p.PolicyV1Interface.Evictions(ns), p.blocks}
}

type watchedEvictions struct {
	policyclient.EvictionInterface
	blocks *blocks
}

func (e watchedEvictions) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	err := e.EvictionInterface.Evict(ctx, eviction)
	e.blocks.note(ctx, eviction.Namespace, eviction.Name, err)
	return err
}

// note takes the answer to one eviction.
func (b *blocks) note(ctx context.Context, ns, pod string, err error) {
	now := time.Now()
	var by, why string
	if apierrors.IsTooManyRequests(err) {
		by, why = b.budget(ctx, ns, pod)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := ns + "/" + pod
	open, was := b.since[key]
	switch {
	case by == "" && was:
		open.to = now
		b.past = append(b.past, open)
		delete(b.since, key)
	case by != "" && was:
		open.by, open.why = by, why
		b.since[key] = open
	case by != "":
		b.since[key] = blocked{by: by, why: why, from: now}
	}
}

// budget is the PodDisruptionBudget that allows no disruption of the pod, and what it says. Without one
// it was the API server itself that had too much to do.
func (b *blocks) budget(ctx context.Context, ns, name string) (by, why string) {
	const server = "the API server (too many requests)"
	pod, err := b.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return server, ""
	}
	list, err := b.client.PolicyV1().PodDisruptionBudgets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return server, ""
	}
	for _, budget := range list.Items {
		if selects(&budget, pod) && budget.Status.DisruptionsAllowed < 1 {
			s := budget.Status
			return "PodDisruptionBudget " + budget.Name, fmt.Sprintf("needs %d healthy, has %d", s.DesiredHealthy, s.CurrentHealthy)
		}
	}
	return server, ""
}

func selects(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// String says for how long each budget blocked: "blocked 31 s by PodDisruptionBudget teleport-proxy
// (needs 2 healthy, has 2)". It is empty if nothing was refused.
func (b *blocks) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.past)
	for _, open := range b.since {
		open.to = time.Now()
		all = append(all, open)
	}
	slices.SortFunc(all, func(x, y blocked) int { return x.from.Compare(y.from) })
	times, last, until := map[string]time.Duration{}, map[string]string{}, map[string]time.Time{}
	for _, x := range all {
		// Several pods that wait for one budget at the same time wait once.
		from := x.from
		if u := until[x.by]; u.After(from) {
			from = u
		}
		if x.to.After(from) {
			times[x.by] += x.to.Sub(from)
			until[x.by] = x.to
		}
		last[x.by] = x.why
	}
	var said []string
	for _, by := range sortedKeys(last) {
		text := fmt.Sprintf("blocked %s by %s", seconds(times[by]), by)
		if last[by] != "" {
			text += " (" + last[by] + ")"
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}
