package embedded

import (
	"context"
	"fmt"
	"slices"

	"shakedown.dev/shakedown/clusters"
)

// Available is nil: nftables, signals and processes are what the cluster stands on, so they are there.
func (c *Cluster) Available(action clusters.NodeAction) error {
	if !slices.Contains(clusters.NodeActions(), action) {
		return fmt.Errorf("%q is no node action", action)
	}
	return nil
}

// Kill ends kubelet and containers with SIGKILL.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	return c.node(ctx, clusters.NodeKill, node)
}

// Pause stops kubelet and containers.
func (c *Cluster) Pause(ctx context.Context, node string) error {
	return c.node(ctx, clusters.NodePause, node)
}

// Resume undoes Pause.
func (c *Cluster) Resume(ctx context.Context, node string) error {
	return c.node(ctx, clusters.NodeResume, node)
}

// Partition drops packets in nftables, on the node's addresses and its pods'.
func (c *Cluster) Partition(ctx context.Context, node string, from ...string) error {
	return c.node(ctx, clusters.NodePartition, node, from...)
}

// Heal undoes every Partition of the node.
func (c *Cluster) Heal(ctx context.Context, node string) error {
	return c.node(ctx, clusters.NodeHeal, node)
}

// Restart kills the node if it runs and starts its kubelet anew.
func (c *Cluster) Restart(ctx context.Context, node string) error {
	return c.node(ctx, clusters.NodeRestart, node)
}

func (c *Cluster) node(ctx context.Context, action clusters.NodeAction, node string, from ...string) error {
	_, _, err := c.ask(ctx, Request{Op: OpNode, Node: node, Action: string(action), From: from})
	if err != nil {
		return fmt.Errorf("%s node %s: %w", action, node, err)
	}
	return nil
}
