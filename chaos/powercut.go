package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

// powerCut is what the API said of nodes before they lost their power. It goes on saying so, also when they are back
// and Ready, until their kubelets have looked at what they run: none of it counts as a sign of life.
type powerCut struct {
	leases     map[string]time.Time // by node: when its kubelet last said that it lives
	containers map[string]bool      // by ID: those that ran
	sure       map[string]bool      // nodes that certainly lost it
}

// cutPower ends the nodes as a power cut does.
func (o *outage) cutPower(ctx context.Context, verb string) error {
	o.cut = &powerCut{map[string]time.Time{}, map[string]bool{}, map[string]bool{}}
	if err := o.remember(ctx); err != nil {
		return err
	}
	return o.all(ctx, undo.NodeKilled, verb, func(ctx context.Context, op clusters.NodeOperator, node string) error {
		err := op.Kill(ctx, node)
		o.cut.sure[node] = err == nil
		return err
	})
}

// remember adds what the API says now to what it said before the power was cut. It is asked for again once the nodes
// are silent, since they may have said something between the first look and their end.
func (o *outage) remember(ctx context.Context) error {
	if o.cut == nil {
		return nil
	}
	for _, n := range o.nodes {
		renewed, err := o.site.lease(ctx, n.Name)
		if err != nil {
			return err
		}
		o.cut.leases[n.Name] = renewed
	}
	pods, err := o.pods(ctx)
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			o.cut.containers[c.ContainerID] = true
		}
	}
	return err
}

// anew is nil if the pod's containers were started after the power cut, or if there was none for sure.
func (c *powerCut) anew(p *corev1.Pod) error {
	if c == nil || !c.sure[p.Spec.NodeName] {
		return nil
	}
	for _, s := range p.Status.ContainerStatuses {
		if c.containers[s.ContainerID] {
			return fmt.Errorf("pod %s on %s is as it was before the power cut: container %s was not started anew", p.Name, p.Spec.NodeName, s.Name)
		}
	}
	return nil
}

func injectKill(ctx context.Context, s *Site) (Injection, error) {
	o, err := s.newOutage(ctx)
	if err != nil {
		return nil, err
	}
	return effect{site: s, settle: o.notReady, healed: o.speaks}, o.cutPower(ctx, "kill")
}

// injectRestart cuts the power; healing waits until the nodes were away for as long as they should.
func injectRestart(ctx context.Context, s *Site) (Injection, error) {
	o, err := s.newOutage(ctx)
	if err != nil {
		return nil, err
	}
	heal := func(ctx context.Context) error {
		if err := pause(ctx, s.Do.Args.Duration("down")-time.Since(o.began)); err != nil {
			return err
		}
		return s.Undo(ctx)
	}
	return effect{site: s, settle: o.silent, heal: heal, healed: o.speaks}, o.cutPower(ctx, "restart")
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
		return strings.Join(said, "; "), o.remember(ctx)
	})
}

// speaks sees the kubelets accept connections and tell the API that they live, and what they carry started anew.
func (o *outage) speaks(ctx context.Context) (string, error) {
	since := time.Now()
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
			if !renewed.After(o.cut.leases[n.Name]) {
				return "", fmt.Errorf("the kubelet of %s has not renewed its lease since", n.Name)
			}
		}
		return o.well(ctx, since)
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
