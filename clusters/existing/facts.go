package existing

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
)

// Reach is the way to pods.
func (c *Cluster) Reach() string { return c.way }

// Facts are what the API says. Whether limits hold is for the cluster's owner to know; a cluster is expected to.
func (c *Cluster) Facts(ctx context.Context) (clusters.Facts, error) {
	f := clusters.Facts{Provider: ProviderName, Name: c.context, Version: c.version, APIServer: c.config.Host, Reach: c.way, Limits: clusters.Limits{Hold: true}}
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, err
	}
	for _, n := range list.Items {
		node := clusters.Node{Name: n.Name, PodCIDR: n.Spec.PodCIDR}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				node.Address = a.Address
			}
		}
		f.Nodes = append(f.Nodes, node)
	}
	return f, nil
}
