package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// Nodes are the nodes that a parameter selects now beside the spared ones, in the order they are to be hit.
func (s *Site) Nodes(ctx context.Context, param string, spared ...string) ([]corev1.Node, error) {
	sel := s.Do.Selects[param]
	if sel == nil || sel.Node == nil {
		return nil, fmt.Errorf("%w: parameter %s selects no nodes", ErrEmpty, param)
	}
	all, err := s.nodesOf(ctx, sel.Node)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n corev1.Node) bool { return slices.Contains(spared, n.Name) })
	want, err := sel.Want(len(all))
	if err != nil {
		return nil, fmt.Errorf("%w: %w%s", ErrEmpty, err, said(spared))
	}
	order, err := s.nodeOrder(ctx, *sel, all)
	if err != nil {
		return nil, err
	}
	out := make([]corev1.Node, 0, want)
	for _, i := range order[:want] {
		out = append(out, all[i])
	}
	return out, nil
}

// HitNodes are Nodes, told to the history as the targets. The control arm's is spared where the action takes nodes
// away, unless it names its node.
func (s *Site) HitNodes(ctx context.Context) ([]corev1.Node, error) {
	spared, err := s.spared(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Nodes(ctx, "select", spared...)
	if err != nil {
		return nil, err
	}
	targets := make([]history.Target, len(nodes))
	for i, n := range nodes {
		why := fmt.Sprintf("%s, %d of %d%s", s.Do.Selects["select"], i+1, len(nodes), said(spared))
		targets[i] = history.Target{Kind: "node", Name: n.Name, UID: string(n.UID), Why: why}
	}
	s.hooks.Hit(targets)
	return nodes, nil
}

// spared are the nodes that carry a pod of the control arm, in whatever state.
func (s *Site) spared(ctx context.Context) ([]string, error) {
	word, _ := scenarios.Words().Find(s.Do.Action)
	if s.Control == "" || !s.Do.Spares(word.Hits) {
		return nil, nil
	}
	list, err := s.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.Control})
	if err != nil {
		return nil, fmt.Errorf("look for the control arm: %w", err)
	}
	var out []string
	for _, p := range list.Items {
		if n := p.Spec.NodeName; n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// said tells of the nodes that were spared.
func said(spared []string) string {
	if len(spared) == 0 {
		return ""
	}
	return "; spared for the control arm: " + strings.Join(spared, ", ")
}

// hollow marks the nodes of kubelet code over a fake runtime: nothing of the system runs there.
const hollow = "shakedown.dev/hollow"

// nodesOf are the nodes of a selection in the order of their names, numbers in them by value.
func (s *Site) nodesOf(ctx context.Context, sel *scenarios.NodeSelection) ([]corev1.Node, error) {
	list, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out, err := placed(list.Items, sel)
	if err != nil {
		return nil, err
	}
	if out, err = s.carrying(ctx, out, sel.Running, true); err != nil {
		return nil, err
	}
	return s.carrying(ctx, out, sel.Without, false)
}

// controlPlane says whether pods of the system are kept off the node, since it carries the cluster's own.
func controlPlane(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "node-role.kubernetes.io/control-plane" })
}

// placed are those of all nodes that a selection is about by its place or name.
func placed(all []corev1.Node, sel *scenarios.NodeSelection) ([]corev1.Node, error) {
	var out []corev1.Node
	for _, n := range all {
		if carries := n.Labels[hollow] == "" && !controlPlane(&n); n.Name == sel.Name || sel.Name == "" && carries {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b corev1.Node) int {
		if c := len(a.Name) - len(b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if sel.Ordinal == nil {
		return out, nil
	}
	if *sel.Ordinal >= len(out) {
		return nil, fmt.Errorf("%w: node number %d of %d", ErrEmpty, *sel.Ordinal, len(out))
	}
	return out[*sel.Ordinal : *sel.Ordinal+1], nil
}

// NamedNodes are the names of those nodes that faults of the steps name and take away. It is nil if no other would be
// left.
func NamedNodes(all []corev1.Node, steps []scenarios.Step) []string {
	var out []string
	for _, sel := range scenarios.NamedNodes(steps) {
		found, _ := placed(all, &sel) // a node that is not there hits nobody
		for _, n := range found {
			if !slices.Contains(out, n.Name) {
				out = append(out, n.Name)
			}
		}
	}
	if real, _ := placed(all, &scenarios.NodeSelection{Any: true}); len(out) == len(real) {
		return nil
	}
	return out
}

// carrying are those nodes that carry a running pod of the component, or those that do not.
func (s *Site) carrying(ctx context.Context, nodes []corev1.Node, component string, want bool) ([]corev1.Node, error) {
	if component == "" {
		return nodes, nil
	}
	pods, err := s.candidates(ctx, scenarios.Selection{Component: component})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(n corev1.Node) bool {
		return want != slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name })
	}), nil
}

// nodeOrder is the order of By, where a node counts as its pods of the component do together.
func (s *Site) nodeOrder(ctx context.Context, sel scenarios.Selection, nodes []corev1.Node) ([]int, error) {
	order := sel.Order(len(nodes))
	switch sel.By {
	case "", "random":
		return order, nil
	case "oldest", "newest":
		slices.SortStableFunc(order, func(i, j int) int {
			c := nodes[i].CreationTimestamp.Compare(nodes[j].CreationTimestamp.Time)
			if sel.By == "newest" {
				return -c
			}
			return c
		})
		return order, nil
	}
	pods, err := s.candidates(ctx, scenarios.Selection{Component: sel.Node.Running})
	if err != nil {
		return nil, err
	}
	weight, err := s.weigh(ctx, sel)
	if err != nil {
		return nil, err
	}
	weights := map[string]int{}
	for i := range pods {
		weights[pods[i].Spec.NodeName] += weight(&pods[i])
	}
	slices.SortStableFunc(order, func(i, j int) int { return weights[nodes[j].Name] - weights[nodes[i].Name] })
	return order, nil
}

// weigh is how much a pod counts for By; the heaviest comes first.
func (s *Site) weigh(ctx context.Context, sel scenarios.Selection) (func(*corev1.Pod) int, error) {
	switch {
	case sel.By == "leader" && sel.Node.Running != "":
		leader, err := s.Leader(ctx, sel.Node.Running)
		return func(p *corev1.Pod) int { return boolInt(p.UID == leader) }, err
	case sel.By == "mostSessions":
		counts := s.Sessions()
		return func(p *corev1.Pod) int { return counts[p.UID] }, nil
	case sel.By == "fewestSessions":
		counts := s.Sessions()
		return func(p *corev1.Pod) int { return -counts[p.UID] }, nil
	}
	return nil, fmt.Errorf("select %s: %w: by %s cannot be told here", sel, ErrUnavailable, sel.By)
}
