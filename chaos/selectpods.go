package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// Pods are the pods that a parameter selects now, in the order they are to be hit. Fewer than wanted is
// ErrEmpty: a fault that hits less than it says would be judged by what it did not do.
func (s *Site) Pods(ctx context.Context, param string) ([]corev1.Pod, error) {
	sel := s.Do.Selects[param]
	if sel == nil {
		return nil, fmt.Errorf("%w: parameter %s has no selection", ErrEmpty, param)
	}
	all, err := s.candidates(ctx, *sel)
	if err != nil {
		return nil, err
	}
	want, err := sel.Want(len(all))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEmpty, err)
	}
	order, err := s.order(ctx, *sel, all)
	if err != nil {
		return nil, err
	}
	out := make([]corev1.Pod, 0, want)
	for _, i := range order[:want] {
		out = append(out, all[i])
	}
	return out, nil
}

// HitPods are Pods, told to the history as the targets.
func (s *Site) HitPods(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := s.Pods(ctx, "select")
	if err != nil {
		return nil, err
	}
	targets := make([]history.Target, len(pods))
	for i := range pods {
		targets[i] = s.podTarget(&pods[i], fmt.Sprintf("%s, %d of %d", s.Do.Selects["select"], i+1, len(pods)))
	}
	s.hooks.Hit(targets)
	return pods, nil
}

func (s *Site) podTarget(p *corev1.Pod, why string) history.Target {
	component := p.Labels["app.kubernetes.io/component"]
	if sel := s.Do.Selects["select"]; sel != nil && sel.Component != "" {
		component = sel.Component
	}
	ref := history.PodRef{Name: p.Name, UID: string(p.UID), Component: component, Node: p.Spec.NodeName, Revision: revisionOf(p)}
	return history.Target{Kind: "pod", Name: p.Name, UID: string(p.UID), Pod: ref, Why: why}
}

// candidates are the running pods that a selection is about, in an order that does not hang on names that
// a controller drew: by ordinal, node, age.
func (s *Site) candidates(ctx context.Context, sel scenarios.Selection) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector(sel.Component)})
	if err != nil {
		return nil, fmt.Errorf("select %s: %w", sel, err)
	}
	keep, err := s.filters(ctx, sel, list.Items)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && keep(&p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b corev1.Pod) int { return comparePods(&a, &b) })
	return out, nil
}

func comparePods(a, b *corev1.Pod) int {
	ao, aHas := ordinalOf(a)
	bo, bHas := ordinalOf(b)
	if aHas && bHas && ao != bo {
		return ao - bo
	}
	if c := strings.Compare(a.Spec.NodeName, b.Spec.NodeName); c != 0 {
		return c
	}
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// filters are what a selection asks of a pod beside its component.
func (s *Site) filters(ctx context.Context, sel scenarios.Selection, pods []corev1.Pod) (func(*corev1.Pod) bool, error) {
	var keep []func(*corev1.Pod) bool
	if sel.Ordinal != nil {
		keep = append(keep, func(p *corev1.Pod) bool {
			n, has := ordinalOf(p)
			return has && n == *sel.Ordinal
		})
	}
	if sel.Revision != "" {
		current, err := s.currentRevisions(ctx, pods)
		if err != nil {
			return nil, err
		}
		keep = append(keep, func(p *corev1.Pod) bool { return current[revisionOf(p)] == (sel.Revision == "new") })
	}
	if sel.Node != nil {
		nodes, err := s.nodesOf(ctx, sel.Node)
		if err != nil {
			return nil, err
		}
		keep = append(keep, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
		})
	}
	return func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(keep, func(f func(*corev1.Pod) bool) bool { return !f(p) })
	}, nil
}

// order is in which order the candidates are taken.
func (s *Site) order(ctx context.Context, sel scenarios.Selection, pods []corev1.Pod) ([]int, error) {
	order := sel.Order(len(pods))
	var less func(a, b *corev1.Pod) int
	switch sel.By {
	case "", "random":
		return order, nil
	case "oldest":
		less = func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }
	case "newest":
		less = func(a, b *corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) }
	case "mostSessions", "fewestSessions":
		counts, sign := s.Sessions(), 1
		if sel.By == "mostSessions" {
			sign = -1
		}
		less = func(a, b *corev1.Pod) int { return sign * (counts[a.UID] - counts[b.UID]) }
	case "leader":
		leader, err := s.Leader(ctx, sel.Component)
		if err != nil {
			return nil, fmt.Errorf("select %s: %w", sel, err)
		}
		less = func(a, b *corev1.Pod) int { return boolInt(b.UID == leader) - boolInt(a.UID == leader) }
	default:
		return nil, fmt.Errorf("select %s: %w: order %q is not known", sel, ErrUnavailable, sel.By)
	}
	// Equals stay in the order of the seed.
	slices.SortStableFunc(order, func(i, j int) int { return less(&pods[i], &pods[j]) })
	return order, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ordinalOf is the number of a StatefulSet's pod.
func ordinalOf(p *corev1.Pod) (int, bool) {
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind != "StatefulSet" {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(p.Name, owner.Name+"-"))
	return n, err == nil
}

// revisionOf is the hash of the template that a pod was made from.
func revisionOf(p *corev1.Pod) string {
	if hash := p.Labels["pod-template-hash"]; hash != "" {
		return hash
	}
	return p.Labels["controller-revision-hash"]
}
