package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/undo"
)

var rolloutStuck = Kind{
	Name: "rolloutStuck",
	Proof: "a new pod waits with the kubelet's reason (image, init), runs for 5 s and is not ready (readiness), is refused by the scheduler " +
		"(antiAffinity), or ends with an exit status (config); with quota, when the controller reports that it may not make one",
	Healed: "the workload has its former template, and all its replicas updated and ready",
	Where: "any cluster, Deployments and StatefulSets; how: config those whose pods mount a ConfigMap with a YAML file: the new pods get a copy of it that does not parse, " +
		"the ConfigMap itself is not touched",
	Example: "rolloutStuck: {component: proxy, how: image, for: 1m}",
	Slow:    "the workload takes to go back",
	inject:  injectStuck,
}

// stuck is a rollout that cannot finish.
type stuck struct {
	site   *Site
	how    string
	owner  owner
	before corev1.PodTemplateSpec
	old    map[types.UID]bool
	volume int    // of how: config, which one is spoilt
	config string // and the ConfigMap that comes in its place
}

// template is what a Deployment and a StatefulSet have in common.
type template struct {
	object metav1.Object
	pod    *corev1.PodTemplateSpec
	update func(context.Context) error
}

func injectStuck(ctx context.Context, s *Site) (Injection, error) {
	k := &stuck{site: s, how: s.Do.Args.String("how"), old: map[types.UID]bool{}}
	component := s.Do.Args.String("component")
	list, err := s.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector(component)})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("%w: component %s has no pods", ErrEmpty, component)
	}
	for i := range list.Items {
		k.old[list.Items[i].UID] = true
	}
	if k.owner, err = s.ownerOf(ctx, &list.Items[0]); err != nil {
		return nil, err
	}
	t, err := k.template(ctx)
	if err != nil {
		return nil, err
	}
	k.before = *t.pod.DeepCopy()
	s.hooks.Hit([]history.Target{{Kind: strings.ToLower(k.owner.kind), Name: k.owner.name, UID: k.owner.uid,
		Pod: history.PodRef{Component: component}, Why: "component " + component}})
	e := effect{site: s, settle: k.settle, healed: k.healed}
	switch k.how {
	case "quota":
		err = k.quota(ctx, component)
	case "config":
		err = k.copyConfig(ctx)
	}
	if err != nil && !s.changed() {
		return nil, err
	}
	if err != nil {
		return e, err
	}
	return e, k.change(ctx)
}

// template reads the workload as it is now.
func (k *stuck) template(ctx context.Context) (template, error) {
	apps, ns := k.site.Client.AppsV1(), k.owner.namespace
	switch k.owner.kind {
	case "Deployment":
		d, err := apps.Deployments(ns).Get(ctx, k.owner.name, metav1.GetOptions{})
		if err != nil {
			return template{}, err
		}
		return template{d, &d.Spec.Template, func(ctx context.Context) error {
			_, err := apps.Deployments(ns).Update(ctx, d, metav1.UpdateOptions{})
			return err
		}}, nil
	case "StatefulSet":
		set, err := apps.StatefulSets(ns).Get(ctx, k.owner.name, metav1.GetOptions{})
		if err != nil {
			return template{}, err
		}
		return template{set, &set.Spec.Template, func(ctx context.Context) error {
			_, err := apps.StatefulSets(ns).Update(ctx, set, metav1.UpdateOptions{})
			return err
		}}, nil
	}
	return template{}, fmt.Errorf("a %s has no rollout that could be stuck", k.owner.kind)
}

// change begins the rollout, with the run's mark on the workload and on its pods' template. Going back is
// refused if somebody else has changed the template since.
func (k *stuck) change(ctx context.Context) error {
	const mark = "/metadata/annotations/shakedown.dev~1run"
	back, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/template" + mark, "value": k.site.Run},
		{"op": "replace", "path": "/spec/template", "value": k.before},
		{"op": "remove", "path": mark},
	})
	if err != nil {
		return err
	}
	prior, err := json.Marshal(undo.Patched{Type: types.JSONPatchType, Back: back})
	if err != nil {
		return err
	}
	change := undo.Change{Kind: undo.ObjectChanged, What: "begin a rollout of " + k.owner.String() + " that cannot finish", Object: k.owner.object(), Prior: prior}
	return k.site.Change(ctx, change, k.begin)
}

// begin writes the spoiled template, again if the workload's status was written in between.
func (k *stuck) begin(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		t, err := k.template(ctx)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(k.before, *t.pod) {
			return errors.New("somebody else changed its template at the same time")
		}
		k.spoil(t.pod)
		t.pod.Annotations = with(t.pod.Annotations, undo.RunLabel, k.site.Run)
		t.object.SetAnnotations(with(t.object.GetAnnotations(), undo.RunLabel, k.site.Run))
		return t.update(ctx)
	})
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// spoil makes the template one whose pods never become ready.
func (k *stuck) spoil(t *corev1.PodTemplateSpec) {
	const never = "shakedown.invalid/never:stuck"
	switch k.how {
	case "image":
		t.Spec.Containers[0].Image, t.Spec.Containers[0].ImagePullPolicy = never, corev1.PullIfNotPresent
	case "init":
		t.Spec.InitContainers = append(t.Spec.InitContainers, corev1.Container{Name: "shakedown-never", Image: never, ImagePullPolicy: corev1.PullIfNotPresent})
	case "readiness":
		t.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"/shakedown-never-ready"}}}}
	case "config":
		t.Spec.Volumes[k.volume].ConfigMap.Name = k.config
	case "antiAffinity":
		t.Spec.NodeSelector = with(t.Spec.NodeSelector, undo.RunLabel, "never")
	}
}

// quota leaves room for the pods that are there and no more.
func (k *stuck) quota(ctx context.Context, component string) error {
	pods, err := k.site.podsIn(ctx, k.owner.namespace)
	if err != nil {
		return err
	}
	alive := len(slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}))
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: objectName("quota", k.site), Namespace: k.owner.namespace, Labels: map[string]string{undo.RunLabel: k.site.Run}},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(alive), resource.DecimalSI)}},
	}
	change := undo.Change{Kind: undo.ObjectCreated, What: "allow no more pods than there are, for " + component,
		Object: undo.Object{Resource: "v1/resourcequotas", Namespace: q.Namespace, Name: q.Name}}
	return k.site.Change(ctx, change, func(ctx context.Context) error {
		_, err := k.site.Client.CoreV1().ResourceQuotas(q.Namespace).Create(ctx, q, metav1.CreateOptions{})
		return err
	})
}

func (k *stuck) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		if k.how == "quota" {
			return k.refused(ctx)
		}
		list, err := k.site.podsIn(ctx, k.owner.namespace)
		if err != nil {
			return "", err
		}
		for i := range list {
			p := &list[i]
			if o, err := k.site.ownerOf(ctx, p); k.old[p.UID] || err != nil || o != k.owner {
				continue
			}
			if why := k.stuckBy(p); why != "" {
				return fmt.Sprintf("new pod %s: %s", p.Name, why), nil
			}
		}
		return "", fmt.Errorf("no new pod of %s is stuck yet", k.owner)
	})
}

// stuckBy is why a new pod does not become ready, in the words of who says so.
func (k *stuck) stuckBy(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && k.how == "antiAffinity" {
			return c.Reason + ": " + c.Message
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		pulls := k.how == "image" || k.how == "init"
		if w := c.State.Waiting; w != nil && pulls && strings.Contains(w.Reason, "Image") {
			return w.Reason + ": " + c.Image
		}
		if end := ended(c); end != nil && k.how == "config" {
			return fmt.Sprintf("container %s ended with exit status %d (%s)", c.Name, end.ExitCode, end.Reason)
		}
		if r := c.State.Running; r != nil && k.how == "readiness" && !c.Ready && time.Since(r.StartedAt.Time) > 5*time.Second {
			return fmt.Sprintf("container %s runs since %s and is not ready", c.Name, r.StartedAt.UTC().Format(time.TimeOnly))
		}
	}
	return ""
}

// refused is the controller's own report that a quota keeps it from making pods.
func (k *stuck) refused(ctx context.Context) (string, error) {
	sets, err := k.site.Client.AppsV1().ReplicaSets(k.owner.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, rs := range sets.Items {
		if c := metav1.GetControllerOf(&rs); c == nil || string(c.UID) != k.owner.uid {
			continue
		}
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return "ReplicaSet " + rs.Name + ": " + c.Message, nil
			}
		}
	}
	return "", fmt.Errorf("no ReplicaSet of %s reports that it may not make pods", k.owner)
}

func (k *stuck) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		t, err := k.template(ctx)
		if err != nil {
			return "", err
		}
		if t.pod.Annotations[undo.RunLabel] == k.site.Run {
			return "", fmt.Errorf("%s still has our template", k.owner)
		}
		if why := behind(t.object); why != "" {
			return "", fmt.Errorf("%s: %s", k.owner, why)
		}
		return k.site.allReady(ctx, []owner{k.owner})
	})
}

// behind says what a workload's controller has not done yet; empty if the rollout is complete.
func behind(o metav1.Object) string {
	switch w := o.(type) {
	case *appsv1.Deployment:
		if w.Status.ObservedGeneration < w.Generation || w.Status.UpdatedReplicas != w.Status.Replicas || w.Status.UnavailableReplicas > 0 {
			return fmt.Sprintf("%d of %d pods are of the former template", w.Status.UpdatedReplicas, w.Status.Replicas)
		}
	case *appsv1.StatefulSet:
		if w.Status.ObservedGeneration < w.Generation || w.Status.CurrentRevision != w.Status.UpdateRevision {
			return "its rollout goes on"
		}
	}
	return ""
}
