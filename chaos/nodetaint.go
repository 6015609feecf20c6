package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/undo"
)

var nodeTaint = Kind{
	Name:    "nodeTaint",
	Proof:   "the scheduler refuses a probe pod that may go nowhere but to the node, because of an untolerated taint; with NoExecute also the pods of before that do not tolerate it are gone, by UID",
	Healed:  "the taint is gone, and the workloads whose pods left have all replicas ready",
	Where:   "any cluster",
	Example: "nodeTaint: {select: {node: {running: agent}, count: 1}, effect: NoExecute, for: 1m}",
	Slow:    slowPods,
	inject:  injectTaint,
}

// tainting is a taint on some nodes.
type tainting struct {
	*outage
	taint   corev1.Taint
	leaving []corev1.Pod // that a NoExecute drives away
}

func injectTaint(ctx context.Context, s *Site) (Injection, error) {
	o, err := s.newOutage(ctx)
	if err != nil {
		return nil, err
	}
	t := &tainting{outage: o, taint: corev1.Taint{
		// The value tells whose it is.
		Key: s.Do.Args.String("key"), Value: s.Run, Effect: corev1.TaintEffect(s.Do.Args.String("effect")),
	}}
	if t.taint.Effect == corev1.TaintEffectNoExecute {
		if err := t.findLeaving(ctx); err != nil {
			return nil, err
		}
	}
	e := effect{site: s, settle: t.settle, healed: t.healed}
	prior, err := json.Marshal(t.taint)
	if err != nil {
		return nil, err
	}
	for i := range o.nodes {
		n := &o.nodes[i]
		change := undo.Change{Kind: undo.NodeTainted, What: "taint " + n.Name, Object: nodeObject(n), Prior: prior}
		if err := s.Change(ctx, change, func(ctx context.Context) error { return t.add(ctx, n) }); err != nil {
			return e, err
		}
	}
	return e, t.probe(ctx)
}

// findLeaving are the pods on the nodes that do not tolerate the taint for ever.
func (t *tainting) findLeaving(ctx context.Context) error {
	pods, err := t.site.podsIn(ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	for _, p := range pods {
		here := slices.ContainsFunc(t.nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
		stays := slices.ContainsFunc(p.Spec.Tolerations, func(tol corev1.Toleration) bool { return tolerates(tol, t.taint) })
		if here && !stays {
			t.leaving = append(t.leaving, p)
		}
	}
	return nil
}

// tolerates says whether a toleration lets a pod stay for ever, as the API defines it.
func tolerates(tol corev1.Toleration, taint corev1.Taint) bool {
	return tol.TolerationSeconds == nil && (tol.Effect == "" || tol.Effect == taint.Effect) &&
		(tol.Key == "" || tol.Key == taint.Key) &&
		(tol.Operator == corev1.TolerationOpExists || tol.Key != "" && tol.Value == taint.Value)
}

// add lays the taint beside those that are there, of the node as it is now.
func (t *tainting) add(ctx context.Context, n *corev1.Node) error {
	now, err := t.site.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	taints := append(slices.Clone(now.Spec.Taints), t.taint)
	return t.site.patchNode(ctx, n, map[string]any{
		"metadata": map[string]any{"resourceVersion": now.ResourceVersion, "uid": now.UID},
		"spec":     map[string]any{"taints": taints},
	})
}

// probe asks the scheduler for a place on the first node. The pod can never run: its image does not exist.
func (t *tainting) probe(ctx context.Context) error {
	never, zero := false, int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: t.probeName(), Namespace: t.site.Namespace, Labels: map[string]string{undo.RunLabel: t.site.Run}},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: t.nodes[0].Labels[corev1.LabelHostname]},
			AutomountServiceAccountToken:  &never,
			TerminationGracePeriodSeconds: &zero,
			Containers:                    []corev1.Container{{Name: "never", Image: "shakedown.invalid/never", ImagePullPolicy: corev1.PullNever}},
		},
	}
	change := undo.Change{Kind: undo.ObjectCreated, What: "ask for a place on " + t.nodes[0].Name,
		Object: undo.Object{Resource: "v1/pods", Namespace: pod.Namespace, Name: pod.Name}}
	return t.site.Change(ctx, change, func(ctx context.Context) error {
		_, err := t.site.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (t *tainting) probeName() string {
	return objectName("probe", t.site)
}

func (t *tainting) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		said, err := t.site.gone(ctx, t.leaving)
		if err != nil {
			return "", err
		}
		if said = "; " + said; len(t.leaving) == 0 {
			said = ""
		}
		p, err := t.site.Client.CoreV1().Pods(t.site.Namespace).Get(ctx, t.probeName(), metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("look at the probe pod: %w", err)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "untolerated taint") {
				return fmt.Sprintf("the scheduler refuses a pod on %s: %s%s", t.nodes[0].Name, c.Message, said), nil
			}
		}
		return "", fmt.Errorf("the scheduler has not refused the probe pod: %s %s", p.Status.Phase, p.Spec.NodeName)
	})
}

func (t *tainting) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, before := range t.nodes {
			n, err := t.site.Client.CoreV1().Nodes().Get(ctx, before.Name, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("look at node %s: %w", before.Name, err)
			}
			if slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.MatchTaint(&t.taint) && x.Value == t.taint.Value }) {
				return "", fmt.Errorf("node %s still has the taint", n.Name)
			}
		}
		return t.outage.ready(ctx)
	})
}

// objectName is a name for an object of a fault's, the same at each call.
func objectName(what string, s *Site) string {
	id := strings.ToLower(strings.NewReplacer("#", "-", "_", "-", ".", "-").Replace(s.ID))
	return fmt.Sprintf("shakedown-%s-%.30s-%s", what, id, hash(s.Run+"/"+s.ID))
}
