package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

// outage is nodes that are away, and the workloads that had pods there.
type outage struct {
	site   *Site
	nodes  []corev1.Node
	owners []owner
	began  time.Time
	cut    *powerCut // nil: the nodes kept what they ran
}

// operate is a fault that the provider does to nodes, seen by the API as nodes that are not Ready.
func operate(kind undo.Kind, verb string, do func(context.Context, clusters.NodeOperator, string) error) func(context.Context, *Site) (Injection, error) {
	return func(ctx context.Context, s *Site) (Injection, error) {
		o, err := s.newOutage(ctx)
		if err != nil {
			return nil, err
		}
		return effect{site: s, settle: o.notReady, healed: o.ready}, o.all(ctx, kind, verb, do)
	}
}

func (s *Site) newOutage(ctx context.Context) (*outage, error) {
	nodes, err := s.HitNodes(ctx)
	if err != nil {
		return nil, err
	}
	o := &outage{site: s, nodes: nodes, began: time.Now()}
	facts, err := s.Cluster.Facts(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		// The provider knows before the API does, where another fault has just begun.
		for _, n := range facts.Nodes {
			if n.Name == nodes[i].Name && n.State != "" && n.State != clusters.NodeRunning {
				return nil, fmt.Errorf("node %s is %s before anything was done to it", n.Name, n.State)
			}
		}
		if !undo.NodeReady(&nodes[i]) {
			return nil, fmt.Errorf("node %s is not Ready before anything was done to it", nodes[i].Name)
		}
	}
	pods, err := o.pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if own, err := s.ownerOf(ctx, &pods[i]); err == nil && !slices.Contains(o.owners, own) {
			o.owners = append(o.owners, own)
		}
	}
	return o, nil
}

// pods are those of the system that the nodes carry.
func (o *outage) pods(ctx context.Context) ([]corev1.Pod, error) {
	all, err := o.site.podsIn(ctx, o.site.Namespace)
	return slices.DeleteFunc(all, func(p corev1.Pod) bool {
		return !slices.ContainsFunc(o.nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
	}), err
}

func (o *outage) all(ctx context.Context, kind undo.Kind, verb string, do func(context.Context, clusters.NodeOperator, string) error) error {
	op, err := o.site.operator(clusters.NodeHeal)
	if err != nil {
		return err
	}
	for i := range o.nodes {
		n := &o.nodes[i]
		change := undo.Change{Kind: kind, What: verb + " node " + n.Name, Object: nodeObject(n)}
		err := o.site.Change(ctx, change, func(ctx context.Context) error { return do(ctx, op, n.Name) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *outage) notReady(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, n := range o.nodes {
			ready, err := o.site.nodeReady(ctx, n.Name)
			if err != nil {
				return "", err
			}
			if ready {
				return "", fmt.Errorf("node %s is still Ready", n.Name)
			}
		}
		said := fmt.Sprintf("%s not Ready, %s after the start", names(o.nodes), seconds(time.Since(o.began)))
		return said, o.remember(ctx)
	})
}

// ready waits until the nodes and what they carry are well. What a pod did before is no sign that it is back.
func (o *outage) ready(ctx context.Context) (string, error) {
	since := time.Now()
	return await(ctx, func(ctx context.Context) (string, error) { return o.well(ctx, since) })
}

func (o *outage) well(ctx context.Context, since time.Time) (string, error) {
	for _, n := range o.nodes {
		if err := o.site.nodeWell(ctx, n.Name); err != nil {
			return "", err
		}
	}
	n, err := o.podsWell(ctx, since)
	return fmt.Sprintf("%s Ready, with %s", names(o.nodes), count(n, "ready pod")), err
}

// podsWell counts the pods that the nodes carry now of the workloads that had some there, if all are ready.
// What others lost by the outage, such as agents elsewhere that wait for an auth, is the system's recovery.
func (o *outage) podsWell(ctx context.Context, since time.Time) (n int, err error) {
	pods, err := o.pods(ctx)
	if err != nil {
		return 0, err
	}
	for i := range pods {
		p := &pods[i]
		own, err := o.site.ownerOf(ctx, p)
		if over := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded; over || err != nil || !slices.Contains(o.owners, own) {
			continue
		}
		if err := o.cut.anew(p); err != nil {
			return 0, err
		}
		if !isReady(p) && !o.site.worked(p, since) {
			return 0, fmt.Errorf("pod %s on %s is not ready", p.Name, p.Spec.NodeName)
		}
		n++
	}
	return n, nil
}

func (w World) nodeReady(ctx context.Context, name string) (bool, error) {
	n, err := w.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("look at node %s: %w", name, err)
	}
	return undo.NodeReady(n), nil
}

// nodeWell is nil if the node is Ready and its controllers have taken back what they did while it was not.
func (w World) nodeWell(ctx context.Context, name string) error {
	n, err := w.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at node %s: %w", name, err)
	}
	if !undo.NodeReady(n) {
		return fmt.Errorf("node %s is not Ready", name)
	}
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady {
			return fmt.Errorf("node %s still has the taint %s", name, t.ToString())
		}
	}
	return nil
}
