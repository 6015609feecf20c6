package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/clusters"
)

var nodePoolUpdate = Kind{
	Name:      "nodePoolUpdate",
	Proof:     "each node in turn was seen drained, then not accepting connections at its kubelet's port, then accepting them again with its lease renewed",
	Healed:    "all nodes are Ready and schedulable, and the workloads whose pods were evicted have all replicas ready",
	Where:     whereNodes + "; the node is restarted and keeps its name",
	Example:   "nodePoolUpdate: {select: {node: {any: true}, all: true}, timeout: 3m}",
	Slow:      slowBoot,
	each:      true,
	available: can(clusters.NodeKill, clusters.NodeRestart),
	inject:    injectPoolUpdate,
}

// injectPoolUpdate drains, restarts and uncordons one node after the other; each is whole before the next.
func injectPoolUpdate(ctx context.Context, s *Site) (Injection, error) {
	o, err := s.newOutage(ctx)
	if err != nil {
		return nil, err
	}
	d := &draining{site: s}
	var proofs []string
	e := effect{site: s, healed: o.healedPool(d), detail: func() string { return strings.Join(d.told, "; ") },
		settle: func(context.Context) (string, error) {
			if len(proofs) < len(o.nodes) {
				return "", fmt.Errorf("%d of %d nodes were updated", len(proofs), len(o.nodes))
			}
			return strings.Join(proofs, "; "), nil
		}}
	for i := range o.nodes {
		proof, err := o.update(ctx, d, &o.nodes[i])
		if err != nil {
			return e, errors.Join(fmt.Errorf("update of node %s: %w", o.nodes[i].Name, err), s.Undo(context.WithoutCancel(ctx)))
		}
		proofs = append(proofs, proof)
	}
	return e, nil
}

func (o *outage) healedPool(d *draining) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		d.nodes = o.nodes
		said, err := d.healed(ctx)
		if err != nil {
			return "", err
		}
		ready, err := o.ready(ctx)
		return said + "; " + ready, err
	}
}

// update drains one node, cuts its power, starts it again and uncordons it.
func (o *outage) update(ctx context.Context, d *draining, n *corev1.Node) (proof string, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.site.perNode())
	defer cancel()
	one := &outage{site: o.site, nodes: []corev1.Node{*n}, owners: o.owners, began: o.began}
	single := &draining{site: o.site, nodes: one.nodes}
	if err := single.one(ctx, n); err != nil {
		return "", err
	}
	drained, err := single.settle(ctx)
	d.told, d.owners = append(d.told, single.told...), append(d.owners, single.owners...)
	if err != nil {
		return "", err
	}
	if err := one.cutPower(ctx, "replace"); err != nil {
		return "", err
	}
	silent, err := one.silent(ctx)
	if err != nil {
		return "", err
	}
	if err := o.site.Undo(ctx); err != nil {
		return "", err
	}
	back, err := one.speaks(ctx)
	return strings.Join([]string{drained, silent, back}, "; "), err
}

// perNode is the parameter timeout, which is for each node here.
func (s *Site) perNode() time.Duration {
	if d := s.Do.Args.Duration("timeout"); d > 0 {
		return d
	}
	return DefaultBite
}
