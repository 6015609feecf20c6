package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/undo"
)

var nodeCordon = Kind{
	Name:    "nodeCordon",
	Proof:   "the node has the taint node.kubernetes.io/unschedulable, which a controller sets",
	Healed:  "that taint is gone",
	Where:   "any cluster; a node that is cordoned already stays so afterwards",
	Example: "nodeCordon: {select: {node: {running: proxy}, count: 1}, for: 1m}",
	inject: func(ctx context.Context, s *Site) (Injection, error) {
		nodes, err := s.HitNodes(ctx)
		if err != nil {
			return nil, err
		}
		e := effect{site: s, settle: s.schedulable(nodes, false), healed: s.schedulable(nodes, true)}
		for i := range nodes {
			if err := s.cordon(ctx, &nodes[i]); err != nil {
				return e, err
			}
		}
		return e, nil
	},
}

// cordon makes a node unschedulable, unless it is: what others cordoned is not ours to uncordon.
func (s *Site) cordon(ctx context.Context, n *corev1.Node) error {
	if n.Spec.Unschedulable {
		return nil
	}
	change := undo.Change{Kind: undo.NodeCordoned, What: "cordon " + n.Name, Object: nodeObject(n)}
	return s.Change(ctx, change, func(ctx context.Context) error {
		return s.patchNode(ctx, n, undo.Cordon(s.Run, true))
	})
}

func nodeObject(n *corev1.Node) undo.Object {
	return undo.Object{Resource: "v1/nodes", Name: n.Name, UID: string(n.UID)}
}

func (s *Site) patchNode(ctx context.Context, n *corev1.Node, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

// schedulable waits until the node controller has acted on all the nodes.
func (s *Site) schedulable(nodes []corev1.Node, want bool) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return await(ctx, func(ctx context.Context) (string, error) {
			for _, n := range nodes {
				if err := s.unschedulable(ctx, n.Name, !want); err != nil {
					return "", err
				}
			}
			if want {
				return names(nodes) + " without the taint of an unschedulable node", nil
			}
			return names(nodes) + " tainted as unschedulable by the node controller", nil
		})
	}
}

// unschedulable is nil if the node has the controller's taint as wanted. A node that was cordoned before
// keeps it.
func (s *Site) unschedulable(ctx context.Context, name string, want bool) error {
	n, err := s.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at node %s: %w", name, err)
	}
	if !want && n.Spec.Unschedulable && n.Annotations[undo.CordonMark] != s.Run {
		return nil // somebody else's
	}
	has := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	if has != want {
		return fmt.Errorf("taint %s of node %s: %t, want %t", corev1.TaintNodeUnschedulable, name, has, want)
	}
	return nil
}
