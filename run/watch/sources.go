package watch

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

type (
	listFunc  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// source is one kind of objects, and what is done when one is seen or gone.
type source struct {
	name string // of the resource
	what string // the word of history.Blind for what is out of sight without it

	object runtime.Object
	list   listFunc
	watch  watchFunc
	// seen gets each state of an object; initial: it was there when the watch began.
	seen func(at time.Duration, o any, initial bool)
	// gone gets the last state known; missed: the object went while nothing was seen.
	gone func(at time.Duration, o any, missed bool)
}

// sources is the table of what is watched: revisions before those who want them, pods before who stands behind a Service.
func (w *Watcher) sources() []source {
	ns, core, apps := w.cfg.Namespace, w.cfg.Client.CoreV1(), w.cfg.Client.AppsV1()
	nodes := newNodes()
	return []source{
		{"nodes", "nodes", &corev1.Node{}, lists(core.Nodes().List), core.Nodes().Watch,
			func(at time.Duration, o any, _ bool) { w.nodeSeen(nodes, at, o.(*corev1.Node)) },
			func(at time.Duration, o any, _ bool) { w.nodeGone(nodes, at, o.(*corev1.Node)) }},
		{"replicasets", "pods", &appsv1.ReplicaSet{}, lists(apps.ReplicaSets(ns).List), apps.ReplicaSets(ns).Watch,
			func(at time.Duration, o any, _ bool) { w.replicaSetSeen(at, o.(*appsv1.ReplicaSet)) },
			func(at time.Duration, o any, _ bool) { w.replicaSetGone(at, o.(*appsv1.ReplicaSet)) }},
		{"deployments", "pods", &appsv1.Deployment{}, lists(apps.Deployments(ns).List), apps.Deployments(ns).Watch,
			func(at time.Duration, o any, _ bool) { w.workloadSeen(at, ofDeployment(o.(*appsv1.Deployment))) },
			func(at time.Duration, o any, _ bool) { w.workloadGone(at, ofDeployment(o.(*appsv1.Deployment))) }},
		{"statefulsets", "pods", &appsv1.StatefulSet{}, lists(apps.StatefulSets(ns).List), apps.StatefulSets(ns).Watch,
			func(at time.Duration, o any, _ bool) { w.workloadSeen(at, ofStatefulSet(o.(*appsv1.StatefulSet))) },
			func(at time.Duration, o any, _ bool) { w.workloadGone(at, ofStatefulSet(o.(*appsv1.StatefulSet))) }},
		{"pods", "pods", &corev1.Pod{}, lists(core.Pods(ns).List), core.Pods(ns).Watch,
			func(at time.Duration, o any, initial bool) { w.podSeen(at, o.(*corev1.Pod), initial) },
			func(at time.Duration, o any, missed bool) { w.podGone(at, o.(*corev1.Pod), missed) }},
		{"endpointslices", "endpoints", &discoveryv1.EndpointSlice{},
			lists(w.cfg.Client.DiscoveryV1().EndpointSlices(ns).List), w.cfg.Client.DiscoveryV1().EndpointSlices(ns).Watch,
			func(at time.Duration, o any, _ bool) { w.sliceSeen(at, o.(*discoveryv1.EndpointSlice)) },
			func(at time.Duration, o any, _ bool) { w.sliceGone(at, o.(*discoveryv1.EndpointSlice)) }},
	}
}

// lists makes a typed List one that returns any object.
func lists[T runtime.Object](list func(context.Context, metav1.ListOptions) (T, error)) listFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

// withoutManagedFields keeps the caches small.
func withoutManagedFields(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	return o, nil
}
