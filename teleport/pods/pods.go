// Package pods knows the pods of a Teleport installation: which there are, how to reach each by itself, and what
// each says of itself on its diagnostic port.
package pods

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh"
)

// The components of an installation, as the charts label them.
const (
	Auth  = "auth"
	Proxy = "proxy"
	Agent = "agent"
)

// Ports that a Teleport listens on in its pod, as the charts set them.
const (
	WebPort  = "3080"
	SSHPort  = "3023" // of a proxy, in proxyListenerMode separate
	AuthPort = "3025"
	DiagPort = "3000"
)

// firstDiagPort is DiagPort as a number: further processes of an agent's pod have the ports after it.
const firstDiagPort = 3000

// Pod is one pod of the installation.
type Pod struct {
	Name, Namespace, UID string
	IP                   string // empty until it has one
	Node                 string
	Component            string
	Revision             string // hash of the pod template: pods of one revision are alike
	Version              string // of the program, by the chart's label
	Ready                bool
	Terminating          bool
	Phase                corev1.PodPhase
	Created              time.Time
}

// Ref is the pod as the history names it.
func (p Pod) Ref() history.PodRef {
	return history.PodRef{Name: p.Name, UID: p.UID, Component: p.Component, Node: p.Node, Revision: p.Revision}
}

// Selector selects the pods of a release; an empty component means all of them.
func Selector(release, component string) string {
	set := labels.Set{"app.kubernetes.io/instance": release}
	if component != "" {
		set["app.kubernetes.io/component"] = component
	}
	return set.String()
}

// List gives the pods of a release and component, oldest first.
func List(ctx context.Context, client kubernetes.Interface, namespace, release, component string) ([]Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector(release, component)})
	if err != nil {
		return nil, fmt.Errorf("list %s pods of %s: %w", component, release, err)
	}
	out := make([]Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, From(&list.Items[i]))
	}
	slices.SortFunc(out, func(a, b Pod) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

// From reads a pod object.
func From(p *corev1.Pod) Pod {
	out := Pod{
		Name: p.Name, Namespace: p.Namespace, UID: string(p.UID), IP: p.Status.PodIP, Node: p.Spec.NodeName,
		Component: p.Labels["app.kubernetes.io/component"], Version: p.Labels["app.kubernetes.io/version"],
		Terminating: p.DeletionTimestamp != nil, Phase: p.Status.Phase, Created: p.CreationTimestamp.Time,
	}
	// A Deployment's pods carry the first, a StatefulSet's the second.
	if out.Revision = p.Labels["pod-template-hash"]; out.Revision == "" {
		out.Revision = p.Labels["controller-revision-hash"]
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// Through is how to go through this very proxy pod, whatever its Service says. A pod's address is no principal of
// the proxy's certificate, but localhost is.
func (p Pod) Through(separate bool) ssh.Proxy {
	port := WebPort
	if separate {
		port = SSHPort
	}
	return ssh.Proxy{Address: net.JoinHostPort(p.IP, port), Name: "localhost", Separate: separate}
}

// Carriers tells which pod stands behind an address, for connections of known ends.
type Carriers map[string]Pod

// ByIP indexes pods by their addresses. Where an address was used again, the younger pod wins.
func ByIP(all []Pod) Carriers {
	out := Carriers{}
	for _, p := range all {
		if p.IP != "" && (out[p.IP].IP == "" || out[p.IP].Created.Before(p.Created)) {
			out[p.IP] = p
		}
	}
	return out
}

// Of gives the pod whose address it is, if it is one's.
func (c Carriers) Of(addr net.Addr) (Pod, bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return Pod{}, false
	}
	p, ok := c[host]
	return p, ok
}
