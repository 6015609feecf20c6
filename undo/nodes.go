package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/clusters"
)

// CordonMark is the annotation that says which run cordoned a node. It is written together with the
// cordon: a node that is cordoned without it was cordoned by somebody else.
const CordonMark = "cordon.shakedown.dev/run"

// node is the entry's node, or an error that is errGone.
func (c Cluster) node(ctx context.Context, e Entry) (*corev1.Node, error) {
	o := e.Change.Object
	n, err := c.Client.CoreV1().Nodes().Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("node %s %w", o.Name, errGone)
	}
	if err != nil {
		return nil, fmt.Errorf("look at node %s: %w", o.Name, err)
	}
	if o.UID != "" && string(n.UID) != o.UID {
		return nil, fmt.Errorf("node %s of that run %w, another has its name", o.Name, errGone)
	}
	return n, nil
}

func (c Cluster) uncordon(ctx context.Context, e Entry) (string, error) {
	n, err := c.node(ctx, e)
	if err != nil {
		return ok("", err)
	}
	if n.Annotations[CordonMark] != e.Run {
		return fmt.Sprintf("node %s is not cordoned by this run", n.Name), nil
	}
	if err := c.patchNode(ctx, n, Cordon("", false)); err != nil {
		return "", fmt.Errorf("uncordon %s: %w", n.Name, err)
	}
	if n, err = c.node(ctx, e); err != nil {
		return ok("", err)
	}
	if n.Annotations[CordonMark] == e.Run {
		return "", fmt.Errorf("node %s is still cordoned", n.Name)
	}
	return fmt.Sprintf("node %s is schedulable: %t", n.Name, !n.Spec.Unschedulable), nil
}

// Cordon is the merge patch that cordons a node for a run, or ends that.
func Cordon(run string, on bool) map[string]any {
	mark, unschedulable := any(nil), any(nil)
	if on {
		mark, unschedulable = run, true
	}
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{CordonMark: mark}},
		"spec":     map[string]any{"unschedulable": unschedulable},
	}
}

// patchNode lays a merge patch over a node, unless it changed since it was read: then the error is a
// conflict.
func (c Cluster) patchNode(ctx context.Context, n *corev1.Node, patch map[string]any) error {
	meta, _ := patch["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		patch["metadata"] = meta
	}
	meta["resourceVersion"], meta["uid"] = n.ResourceVersion, n.UID
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

func (c Cluster) untaint(ctx context.Context, e Entry) (string, error) {
	var taint corev1.Taint
	if err := json.Unmarshal(e.Change.Prior, &taint); err != nil {
		return "", fmt.Errorf("%w: read the taint: %w", ErrFinal, err)
	}
	n, err := c.node(ctx, e)
	if err != nil {
		return ok("", err)
	}
	ours := func(t corev1.Taint) bool {
		return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
	}
	if !slices.ContainsFunc(n.Spec.Taints, ours) {
		return fmt.Sprintf("node %s has no taint %s", n.Name, taint.ToString()), nil
	}
	rest := slices.DeleteFunc(slices.Clone(n.Spec.Taints), ours)
	if err := c.patchNode(ctx, n, map[string]any{"spec": map[string]any{"taints": rest}}); err != nil {
		return "", fmt.Errorf("untaint %s: %w", n.Name, err)
	}
	if n, err = c.node(ctx, e); err != nil {
		return ok("", err)
	}
	if slices.ContainsFunc(n.Spec.Taints, ours) {
		return "", fmt.Errorf("node %s still has the taint %s", n.Name, taint.ToString())
	}
	return fmt.Sprintf("node %s has no taint %s", n.Name, taint.ToString()), nil
}

// powerOn starts a node that is killed. It does not restart one that runs: its pods would be lost anew.
func (c Cluster) powerOn(ctx context.Context, e Entry) (string, error) {
	return c.operate(ctx, e, func(op clusters.NodeOperator, n *corev1.Node, state clusters.NodeState) error {
		if state == clusters.NodeKilled || state == "" && !NodeReady(n) {
			return op.Restart(ctx, n.Name)
		}
		return nil
	})
}

func (c Cluster) resume(ctx context.Context, e Entry) (string, error) {
	return c.operate(ctx, e, func(op clusters.NodeOperator, n *corev1.Node, state clusters.NodeState) error {
		if state == clusters.NodePaused || state == "" {
			return op.Resume(ctx, n.Name)
		}
		return nil
	})
}

func (c Cluster) rejoin(ctx context.Context, e Entry) (string, error) {
	return c.operate(ctx, e, func(op clusters.NodeOperator, n *corev1.Node, _ clusters.NodeState) error {
		return op.Heal(ctx, n.Name)
	})
}

// operate does something to a node if it is still the same, and sees that the API finds it Ready.
func (c Cluster) operate(ctx context.Context, e Entry, do func(clusters.NodeOperator, *corev1.Node, clusters.NodeState) error) (string, error) {
	op, err := c.operator()
	if err != nil {
		return "", err
	}
	n, err := c.node(ctx, e)
	if err != nil {
		return ok("", err)
	}
	name := e.Change.Object.Name
	state, err := c.nodeState(ctx, name)
	if err != nil {
		return "", err
	}
	if err := do(op, n, state); err != nil {
		return "", err
	}
	if n, err = c.node(ctx, e); err != nil {
		return ok("", err)
	}
	if !NodeReady(n) {
		return "", fmt.Errorf("node %s is not Ready", name)
	}
	return fmt.Sprintf("node %s is Ready", name), nil
}

// nodeState is what the provider last did to the node.
func (c Cluster) nodeState(ctx context.Context, name string) (clusters.NodeState, error) {
	facts, err := c.Cluster.Facts(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the state of node %s: %w", name, err)
	}
	for _, n := range facts.Nodes {
		if n.Name == name {
			return n.State, nil
		}
	}
	return "", fmt.Errorf("node %s is not among the provider's", name)
}

// NodeReady says whether the node's condition Ready is true.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
