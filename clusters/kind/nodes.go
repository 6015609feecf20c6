package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/clusters"
)

// partitionChain is the chain of the packet filter, in a node's own network namespace, that cuts it off.
const partitionChain = "SHAKEDOWN-PARTITION"

// Available is nil: Docker can do all of it.
func (c *Cluster) Available(action clusters.NodeAction) error {
	if slices.Contains(clusters.NodeActions(), action) {
		return nil
	}
	return fmt.Errorf("no action %q for nodes", action)
}

// Kill ends the node's container with SIGKILL, and all in it.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	return c.operate(ctx, node, "kill", "--signal", "KILL")
}

// Pause freezes everything in the node.
func (c *Cluster) Pause(ctx context.Context, node string) error {
	return c.operate(ctx, node, "pause")
}

// Resume lets it go on.
func (c *Cluster) Resume(ctx context.Context, node string) error {
	return c.operate(ctx, node, "unpause")
}

// Restart boots the node anew. Docker may give it another address; routes follow.
func (c *Cluster) Restart(ctx context.Context, node string) error {
	if err := c.operate(ctx, node, "restart", "--time", "0"); err != nil {
		return err
	}
	return c.reroute(ctx)
}

func (c *Cluster) operate(ctx context.Context, node string, args ...string) error {
	if err := c.has(ctx, node); err != nil {
		return err
	}
	_, err := docker(ctx, append(args, node)...)
	return wrapf(err, "node %s", node)
}

// has is nil if the node is one of this cluster's.
func (c *Cluster) has(ctx context.Context, node string) error {
	containers, err := c.inspectNodes(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, n := range containers {
		if n.Name == node {
			return nil
		}
		names = append(names, n.Name)
	}
	return &clusters.NameError{Name: c.name, Err: fmt.Errorf("no node %s; there are %s", node, strings.Join(names, ", "))}
}

// Partition has the node's own packet filter drop what goes to and comes from the others: their addresses, and those
// of their pods. Established connections are cut as well, since the rules stand before all others.
func (c *Cluster) Partition(ctx context.Context, node string, from ...string) error {
	if err := c.has(ctx, node); err != nil {
		return err
	}
	facts, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	cut, err := cutOff(facts.Nodes, c.controlPlane(ctx), node, from)
	if err != nil {
		return &clusters.NameError{Name: c.name, Err: err}
	}
	if len(from) == 0 || slices.Contains(from, "api") {
		// Load comes from where the API is, as on the embedded cluster.
		ip, err := docker(ctx, "inspect", "--format", "{{(index .NetworkSettings.Networks \""+network+"\").IPAddress}}", c.gateway.container())
		if err != nil {
			return err
		}
		cut = append(cut, ip)
	}
	_, err = docker(ctx, "exec", node, "sh", "-c", partitionScript(cut))
	return wrapf(err, "partition %s", node)
}

// Heal takes the rules away; that there are none is no error.
func (c *Cluster) Heal(ctx context.Context, node string) error {
	if err := c.has(ctx, node); err != nil {
		return err
	}
	_, err := docker(ctx, "exec", node, "sh", "-c", healScript)
	return wrapf(err, "heal %s", node)
}

// partitioned looks for the chain. That there is none is iptables' exit status 1; anything else says nothing.
func partitioned(ctx context.Context, node string) (bool, error) {
	_, err := docker(ctx, "exec", node, "iptables", "-w", "-n", "-L", partitionChain)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, wrapf(err, "look whether %s is partitioned", node)
}

// controlPlane is the name of the node that the API is on.
func (c *Cluster) controlPlane(ctx context.Context) string {
	text, err := c.provider.kind().KubeConfig(c.name, true)
	if err != nil {
		return c.name + "-control-plane"
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil || ctx.Err() != nil {
		return c.name + "-control-plane"
	}
	host, _, err := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		return c.name + "-control-plane"
	}
	return host
}

// cutOff are the addresses and pod ranges of the others: of those named, of the API's node for "api", or of all.
func cutOff(all []clusters.Node, api, node string, from []string) ([]string, error) {
	var out []string
	var errs []error
	for i, name := range from {
		if name == "api" {
			from = slices.Replace(slices.Clone(from), i, i+1, api)
		}
	}
	for _, name := range from {
		if name == node || !slices.ContainsFunc(all, func(n clusters.Node) bool { return n.Name == name }) {
			errs = append(errs, fmt.Errorf("cannot cut %s off from %q: want api or another node", node, name))
		}
	}
	for _, n := range all {
		if n.Name == node || len(from) > 0 && !slices.Contains(from, n.Name) {
			continue
		}
		for _, a := range []string{n.Address, n.PodCIDR} {
			if a != "" {
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("nothing is known to cut %s off from", node))
	}
	return out, errors.Join(errs...)
}

const healScript = `for c in INPUT FORWARD OUTPUT; do while iptables -w -D $c -j ` + partitionChain + ` 2>/dev/null; do :; done; done
iptables -w -F ` + partitionChain + ` 2>/dev/null; iptables -w -X ` + partitionChain + ` 2>/dev/null; ! iptables -w -n -L ` + partitionChain + ` >/dev/null 2>&1`

// partitionScript fills the chain before it hooks it in, so that the cut is at one moment.
func partitionScript(cut []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "set -e; iptables -w -N %[1]s 2>/dev/null || iptables -w -F %[1]s\n", partitionChain)
	for _, a := range cut {
		fmt.Fprintf(&b, "iptables -w -A %[1]s -s %[2]s -j DROP; iptables -w -A %[1]s -d %[2]s -j DROP\n", partitionChain, a)
	}
	fmt.Fprintf(&b, "for c in INPUT FORWARD OUTPUT; do iptables -w -C $c -j %[1]s 2>/dev/null || iptables -w -I $c 1 -j %[1]s; done\n", partitionChain)
	return b.String()
}
