package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
)

// containerState is a node as Docker sees it.
type containerState struct {
	Name   string
	State  struct{ Running, Paused bool }
	Labels map[string]string
}

// inspectNodes looks at the cluster's node containers. A kind cluster's nodes are named as their containers are.
func (c *Cluster) inspectNodes(ctx context.Context) ([]containerState, error) {
	ids, err := docker(ctx, "ps", "--all", "--quiet", "--filter", "label=io.x-k8s.kind.cluster="+c.name)
	if err != nil || ids == "" {
		return nil, err
	}
	text, err := docker(ctx, append([]string{"inspect", "--format",
		`{"name":{{json .Name}},"state":{{json .State}},"labels":{{json .Config.Labels}}}`}, strings.Fields(ids)...)...)
	if err != nil {
		return nil, err
	}
	var out []containerState
	for line := range strings.Lines(text) {
		var n containerState
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			return nil, fmt.Errorf("docker inspect: %w", err)
		}
		n.Name = strings.TrimPrefix(n.Name, "/")
		out = append(out, n)
	}
	return out, nil
}

// Facts asks Docker for the nodes and, if it answers, the API for the rest.
func (c *Cluster) Facts(ctx context.Context) (clusters.Facts, error) {
	containers, err := c.inspectNodes(ctx)
	if err != nil {
		return clusters.Facts{}, err
	}
	if len(containers) == 0 {
		return clusters.Facts{}, &clusters.NameError{Name: c.name, Err: fmt.Errorf("%w: no node of it is there, only its gateway; cluster down removes that", clusters.ErrNotFound)}
	}
	config, err := c.RESTConfig(ctx)
	if err != nil {
		return clusters.Facts{}, err
	}
	f := clusters.Facts{
		Provider: ProviderName, Name: c.name, Owned: true, Started: c.gateway.started, APIServer: config.Host,
		Limits: clusters.Limits{Hold: true},
	}
	if at, err := c.addresses(ctx); err == nil {
		f.PodCIDR, f.ServiceCIDR, f.DNS = at.pods, at.services, at.dns
	}
	known := c.fromAPI(ctx, &f)
	f.Nodes = make([]clusters.Node, len(containers))
	var all errgroup.Group
	for i, n := range containers {
		all.Go(func() (err error) {
			one := known[n.Name]
			one.Name = n.Name
			one.State, err = c.state(ctx, n)
			f.Nodes[i] = one
			return err
		})
	}
	err = all.Wait()
	slices.SortFunc(f.Nodes, func(a, b clusters.Node) int { return cmp.Compare(a.Name, b.Name) })
	return f, err
}

// fromAPI gives what the API knows of nodes; while it is away, nothing.
func (c *Cluster) fromAPI(ctx context.Context, f *clusters.Facts) map[string]clusters.Node {
	out := map[string]clusters.Node{}
	client, err := c.client(ctx)
	if err != nil {
		return out
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return out
	}
	for i := range list.Items {
		n := &list.Items[i]
		out[n.Name] = clusters.Node{Address: internalIP(n), PodCIDR: n.Spec.PodCIDR}
		f.Version = n.Status.NodeInfo.KubeletVersion
	}
	return out
}

func (c *Cluster) state(ctx context.Context, n containerState) (clusters.NodeState, error) {
	switch {
	case n.State.Paused:
		return clusters.NodePaused, nil
	case !n.State.Running:
		return clusters.NodeKilled, nil
	}
	cut, err := partitioned(ctx, n.Name)
	if cut {
		return clusters.NodePartitioned, err
	}
	return clusters.NodeRunning, err
}

// MadeFor is the value of a label that the cluster was made with, and whether it was to go with its maker.
func (c *Cluster) MadeFor(label string) (string, bool) {
	return c.gateway.spec.Labels[label], !c.gateway.spec.Detach
}
