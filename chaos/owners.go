package chaos

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/undo"
)

// owner is the workload that brings a pod back.
type owner struct{ kind, namespace, name, uid string }

func (o owner) String() string { return o.kind + " " + o.name }

// object names it for the undo log.
func (o owner) object() undo.Object {
	resource := map[string]string{
		"Deployment": "apps/v1/deployments", "StatefulSet": "apps/v1/statefulsets", "DaemonSet": "apps/v1/daemonsets",
	}[o.kind]
	return undo.Object{Resource: resource, Namespace: o.namespace, Name: o.name, UID: o.uid}
}

// ownerOf is the Deployment, StatefulSet or DaemonSet that will bring the pod back, or an error: what
// nobody brings back is not deleted.
func (w World) ownerOf(ctx context.Context, p *corev1.Pod) (owner, error) {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return owner{}, fmt.Errorf("pod %s has no controller that would bring it back", p.Name)
	}
	switch ref.Kind {
	case "StatefulSet", "DaemonSet":
		return owner{ref.Kind, p.Namespace, ref.Name, string(ref.UID)}, nil
	case "ReplicaSet":
		rs, err := w.Client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return owner{}, fmt.Errorf("look at ReplicaSet %s of pod %s: %w", ref.Name, p.Name, err)
		}
		if above := metav1.GetControllerOf(rs); above != nil && above.Kind == "Deployment" {
			return owner{above.Kind, p.Namespace, above.Name, string(above.UID)}, nil
		}
	}
	return owner{}, fmt.Errorf("pod %s belongs to a %s, which is not known to bring it back", p.Name, ref.Kind)
}

// replicas are a workload's counts now. Its UID must be the same as before.
func (w World) replicas(ctx context.Context, o owner) (undo.Replicas, error) {
	apps := w.Client.AppsV1()
	var found metav1.Object
	var err error
	switch o.kind {
	case "Deployment":
		found, err = apps.Deployments(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	case "StatefulSet":
		found, err = apps.StatefulSets(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	case "DaemonSet":
		found, err = apps.DaemonSets(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	}
	if err != nil {
		return undo.Replicas{}, fmt.Errorf("look at %s: %w", o, err)
	}
	if string(found.GetUID()) != o.uid {
		return undo.Replicas{}, fmt.Errorf("%s is another than before", o)
	}
	r, _ := undo.ReplicasOf(found)
	return r, nil
}

// currentRevisions are the revisions that the pods' controllers want now; all others are old.
func (w World) currentRevisions(ctx context.Context, pods []corev1.Pod) (map[string]bool, error) {
	current, seen := map[string]bool{}, map[string]bool{}
	for i := range pods {
		ref := metav1.GetControllerOf(&pods[i])
		if ref == nil || seen[string(ref.UID)] {
			continue
		}
		seen[string(ref.UID)] = true
		revision, err := w.currentRevision(ctx, &pods[i], ref)
		if err != nil {
			return nil, err
		}
		current[revision] = true
	}
	return current, nil
}

func (w World) currentRevision(ctx context.Context, p *corev1.Pod, ref *metav1.OwnerReference) (string, error) {
	apps := w.Client.AppsV1()
	switch ref.Kind {
	case "ReplicaSet":
		rs, err := apps.ReplicaSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil // the pod is what a ReplicaSet that is gone left: old
		}
		if err != nil {
			return "", fmt.Errorf("look at ReplicaSet %s: %w", ref.Name, err)
		}
		return w.newestReplicaSet(ctx, rs)
	case "StatefulSet":
		set, err := apps.StatefulSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("look at StatefulSet %s: %w", ref.Name, err)
		}
		return set.Status.UpdateRevision, nil
	case "DaemonSet":
		return w.newestControllerRevision(ctx, p.Namespace, ref)
	}
	return "", fmt.Errorf("pod %s belongs to a %s, which has no revisions", p.Name, ref.Kind)
}

// newestReplicaSet is the pod template hash of the newest sibling, by the Deployment controller's own count.
func (w World) newestReplicaSet(ctx context.Context, rs *appsv1.ReplicaSet) (string, error) {
	above := metav1.GetControllerOf(rs)
	if above == nil {
		return rs.Labels["pod-template-hash"], nil
	}
	list, err := w.Client.AppsV1().ReplicaSets(rs.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the ReplicaSets of %s: %w", above.Name, err)
	}
	newest, hash := -1, ""
	for _, sibling := range list.Items {
		if c := metav1.GetControllerOf(&sibling); c == nil || c.UID != above.UID {
			continue
		}
		if n, err := strconv.Atoi(sibling.Annotations["deployment.kubernetes.io/revision"]); err == nil && n > newest {
			newest, hash = n, sibling.Labels["pod-template-hash"]
		}
	}
	return hash, nil
}

func (w World) newestControllerRevision(ctx context.Context, ns string, ref *metav1.OwnerReference) (string, error) {
	list, err := w.Client.AppsV1().ControllerRevisions(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the revisions of DaemonSet %s: %w", ref.Name, err)
	}
	newest, hash := int64(-1), ""
	for _, r := range list.Items {
		if c := metav1.GetControllerOf(&r); c != nil && c.UID == ref.UID && r.Revision > newest {
			newest, hash = r.Revision, r.Labels["controller-revision-hash"]
		}
	}
	return hash, nil
}
