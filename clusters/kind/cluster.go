package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/clusters"
)

// Cluster is a kind cluster that Shakedown made.
type Cluster struct {
	name     string
	gateway  *gateway
	provider *Provider

	mu     sync.Mutex
	net    *addresses       // nil until asked for
	images []clusters.Image // that were given
	loaded []string         // names that the nodes have
}

var (
	_ clusters.Cluster      = (*Cluster)(nil)
	_ clusters.NodeOperator = (*Cluster)(nil)
	_ clusters.ImageAdder   = (*Cluster)(nil)
	_ clusters.Overseer     = (*Cluster)(nil)
)

// addresses are what does not change in the life of a cluster.
type addresses struct{ pods, services, dns string }

// Name is the name that it was brought up with.
func (c *Cluster) Name() string { return c.name }

// Kubeconfig is an administrator's, with the API server at the port that Docker publishes.
func (c *Cluster) Kubeconfig(context.Context) ([]byte, error) {
	text, err := c.provider.kind().KubeConfig(c.name, false)
	if err != nil {
		return nil, &clusters.NameError{Name: c.name, Err: explain(err)}
	}
	return []byte(text), nil
}

// RESTConfig is Kubeconfig for client-go.
func (c *Cluster) RESTConfig(ctx context.Context) (*rest.Config, error) {
	text, err := c.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	return config, wrapf(err, "kubeconfig of cluster %s", c.name)
}

func (c *Cluster) client(ctx context.Context) (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig(ctx)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// open starts the gateway and sets its routes.
func (c *Cluster) open(ctx context.Context) error {
	if err := c.gateway.start(ctx); err != nil {
		return err
	}
	return c.reroute(ctx)
}

// reroute leads each node's pods through that node, and Services through the control plane, which takes no pods and so
// is no target of faults: its kube-proxy sends what comes from outside on in its own name, and answers come back to it.
func (c *Cluster) reroute(ctx context.Context) error {
	client, err := c.client(ctx)
	if err != nil {
		return err
	}
	at, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	via := map[string]string{}
	for _, n := range list.Items {
		address := internalIP(&n)
		if n.Spec.PodCIDR != "" && address != "" {
			via[n.Spec.PodCIDR] = address
		}
		if _, control := n.Labels["node-role.kubernetes.io/control-plane"]; control {
			via[at.services] = address
		}
	}
	return c.gateway.route(ctx, via)
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// addresses reads what kubeadm wrote down.
func (c *Cluster) addresses(ctx context.Context) (addresses, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net != nil {
		return *c.net, nil
	}
	client, err := c.client(ctx)
	if err != nil {
		return addresses{}, err
	}
	written, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		return addresses{}, err
	}
	var config struct {
		Networking struct{ PodSubnet, ServiceSubnet string }
	}
	if err := yaml.Unmarshal([]byte(written.Data["ClusterConfiguration"]), &config); err != nil {
		return addresses{}, fmt.Errorf("ConfigMap kubeadm-config: %w", err)
	}
	dns, err := client.CoreV1().Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil {
		return addresses{}, err
	}
	c.net = &addresses{config.Networking.PodSubnet, config.Networking.ServiceSubnet, dns.Spec.ClusterIP}
	return *c.net, nil
}

// allReady waits for every node: kind itself waits for the control plane alone.
func (c *Cluster) allReady(ctx context.Context) error {
	client, err := c.client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		unready, err := waitsFor(ctx, client)
		if err == nil && unready == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("cluster %s: %s: %w", c.name, unready, context.Cause(ctx)), err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// waitsFor names what is not there yet: a node that is not Ready, DNS, the default service account.
func waitsFor(ctx context.Context, client kubernetes.Interface) (string, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "the API", err
	}
	for i := range list.Items {
		if !ready(&list.Items[i]) {
			return "node " + list.Items[i].Name + " is not Ready", nil
		}
	}
	dns, err := client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return "DNS", err
	}
	if dns.Status.ReadyReplicas == 0 {
		return "DNS is not ready", nil
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return "the default service account", err
	}
	return "", nil
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// DialContext has the gateway connect inside the cluster's network and takes over the socket.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	at, err := c.addresses(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := dialThrough(ctx, c.gateway.socket(), asked{Network: network, Address: address, DNS: at.dns})
	if err == nil {
		return conn, nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError("connect", errno)
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: inside{network, address}, Err: err}
}
