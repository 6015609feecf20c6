package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

const (
	whereNodes   = "clusters whose provider can do it to nodes: embedded; others say so"
	notReady     = "the API has the node's condition Ready as not true, which a controller sets when the kubelet is silent"
	readyAgain   = "the node is Ready again without the taints of an outage, and all pods on it of the workloads that had some there are ready"
	kubeletSpeak = "the kubelet accepts connections again and has renewed its lease; " + readyAgain
)

var nodeKill = Kind{
	Name: "nodeKill", Proof: notReady, Healed: readyAgain, Where: whereNodes,
	Example:   "nodeKill: {select: {node: {running: proxy}, count: 1}, for: 1m}",
	available: can(clusters.NodeKill, clusters.NodeRestart),
	inject: operate(undo.NodeKilled, "kill", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Kill(ctx, node)
	}),
}

var nodePause = Kind{
	Name: "nodePause", Proof: notReady, Healed: readyAgain, Where: whereNodes,
	Example:   "nodePause: {select: {node: {running: auth}, count: 1}, for: 1m}",
	available: can(clusters.NodePause, clusters.NodeResume),
	inject: operate(undo.NodePaused, "pause", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Pause(ctx, node)
	}),
}

var nodePartition = Kind{
	Name: "nodePartition", Proof: notReady, Healed: readyAgain, Where: whereNodes,
	Example:   "nodePartition: {select: {node: {running: proxy}, count: 1}, for: 1m}",
	available: can(clusters.NodePartition, clusters.NodeHeal),
	inject: operate(undo.NodePartitioned, "partition", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Partition(ctx, node)
	}),
}

var nodeRestart = Kind{
	Name: "nodeRestart", Proof: "a connection to the kubelet's port, from inside the cluster's network, is not accepted", Healed: kubeletSpeak, Where: whereNodes,
	Example:   "nodeRestart: {select: {node: {running: proxy}, count: 1}, down: 10s}",
	available: can(clusters.NodeKill, clusters.NodeRestart),
	inject:    injectRestart,
}

// can is available if the provider can do all of the actions.
func can(actions ...clusters.NodeAction) func(context.Context, *Site) error {
	return func(_ context.Context, s *Site) error {
		for _, a := range actions {
			if _, err := s.operator(a); err != nil {
				return err
			}
		}
		return nil
	}
}

// outage is nodes that are away, and the workloads that had pods there.
type outage struct {
	site   *Site
	nodes  []corev1.Node
	owners []owner
	leases map[string]time.Time
	began  time.Time
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
	o := &outage{site: s, nodes: nodes, leases: map[string]time.Time{}, began: time.Now()}
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
	pods, err := s.podsIn(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		here := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == pods[i].Spec.NodeName })
		if own, err := s.ownerOf(ctx, &pods[i]); here && err == nil && !slices.Contains(o.owners, own) {
			o.owners = append(o.owners, own)
		}
	}
	return o, nil
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
		return fmt.Sprintf("%s not Ready, %s after the start", names(o.nodes), seconds(time.Since(o.began))), nil
	})
}

func (o *outage) ready(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, n := range o.nodes {
			if err := o.site.nodeWell(ctx, n.Name); err != nil {
				return "", err
			}
		}
		n, err := o.podsWell(ctx)
		return fmt.Sprintf("%s Ready, with %s", names(o.nodes), count(n, "ready pod")), err
	})
}

// podsWell counts the pods that the nodes carry now of the workloads that had some there, if all are ready.
// What others lost by the outage, such as agents elsewhere that wait for an auth, is the system's recovery.
func (o *outage) podsWell(ctx context.Context) (n int, err error) {
	pods, err := o.site.podsIn(ctx, o.site.Namespace)
	if err != nil {
		return 0, err
	}
	for i := range pods {
		p := &pods[i]
		if !slices.ContainsFunc(o.nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName }) {
			continue
		}
		own, err := o.site.ownerOf(ctx, p)
		switch {
		case err != nil || !slices.Contains(o.owners, own):
		case isReady(p), o.site.Works != nil && p.DeletionTimestamp == nil && o.site.Works(p.UID):
			n++
		default:
			return 0, fmt.Errorf("pod %s on %s is not ready", p.Name, p.Spec.NodeName)
		}
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

// injectRestart cuts the power; healing waits until the nodes were away for as long as they should.
func injectRestart(ctx context.Context, s *Site) (Injection, error) {
	o, err := s.newOutage(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range o.nodes {
		if o.leases[n.Name], err = s.lease(ctx, n.Name); err != nil {
			return nil, err
		}
	}
	heal := func(ctx context.Context) error {
		if err := pause(ctx, s.Do.Args.Duration("down")-time.Since(o.began)); err != nil {
			return err
		}
		return s.Undo(ctx)
	}
	err = o.all(ctx, undo.NodeKilled, "restart", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Kill(ctx, node)
	})
	return effect{site: s, settle: o.silent, heal: heal, healed: o.speaks}, err
}

// silent sees that no kubelet accepts connections any more.
func (o *outage) silent(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for i := range o.nodes {
			address := kubelet(&o.nodes[i])
			err := o.site.knock(ctx, address)
			if err == nil {
				return "", fmt.Errorf("the kubelet of %s still accepts connections", o.nodes[i].Name)
			}
			said = append(said, fmt.Sprintf("the kubelet of %s at %s: %v", o.nodes[i].Name, address, err))
		}
		return strings.Join(said, "; "), nil
	})
}

// speaks sees the kubelets accept connections and tell the API that they live, after the start.
func (o *outage) speaks(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for i := range o.nodes {
			n := &o.nodes[i]
			if err := o.site.knock(ctx, kubelet(n)); err != nil {
				return "", fmt.Errorf("the kubelet of %s: %w", n.Name, err)
			}
			renewed, err := o.site.lease(ctx, n.Name)
			if err != nil {
				return "", err
			}
			if !renewed.After(o.leases[n.Name]) {
				return "", fmt.Errorf("the kubelet of %s has not renewed its lease since", n.Name)
			}
		}
		return o.ready(ctx)
	})
}

// kubelet is the address that a node's kubelet listens on.
func kubelet(n *corev1.Node) string {
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return net.JoinHostPort(a.Address, strconv.Itoa(port))
		}
	}
	return net.JoinHostPort(n.Name, strconv.Itoa(port))
}

// knock connects from inside the cluster's network and closes again.
func (w World) knock(ctx context.Context, address string) error {
	if w.Cluster == nil {
		return errors.New("no way into the cluster's network")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := w.Cluster.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// lease is when a node's kubelet last said that it lives, by its own clock.
func (w World) lease(ctx context.Context, node string) (time.Time, error) {
	l, err := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("look at the lease of node %s: %w", node, err)
	}
	if l.Spec.RenewTime == nil {
		return time.Time{}, fmt.Errorf("the lease of node %s was never renewed", node)
	}
	return l.Spec.RenewTime.Time, nil
}
