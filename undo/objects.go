package undo

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// typed is what is needed of a typed client.
type typed[T metav1.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (T, error)
}

// api is a typed client without its type.
type api struct {
	get    func(ctx context.Context, name string) (metav1.Object, error)
	delete func(ctx context.Context, name string, opts metav1.DeleteOptions) error
	patch  func(ctx context.Context, name string, pt types.PatchType, data []byte) error
}

func untyped[T metav1.Object](c typed[T]) api {
	return api{
		get: func(ctx context.Context, name string) (metav1.Object, error) {
			return c.Get(ctx, name, metav1.GetOptions{})
		},
		delete: c.Delete,
		patch: func(ctx context.Context, name string, pt types.PatchType, data []byte) error {
			_, err := c.Patch(ctx, name, pt, data, metav1.PatchOptions{})
			return err
		},
	}
}

// resources are what the undo log can create and change, by Object.Resource.
func resources(c kubernetes.Interface, ns string) map[string]api {
	return map[string]api{
		"v1/pods":                              untyped(c.CoreV1().Pods(ns)),
		"v1/configmaps":                        untyped(c.CoreV1().ConfigMaps(ns)),
		"v1/resourcequotas":                    untyped(c.CoreV1().ResourceQuotas(ns)),
		"networking.k8s.io/v1/networkpolicies": untyped(c.NetworkingV1().NetworkPolicies(ns)),
		"apps/v1/deployments":                  untyped(c.AppsV1().Deployments(ns)),
		"apps/v1/statefulsets":                 untyped(c.AppsV1().StatefulSets(ns)),
		"apps/v1/daemonsets":                   untyped(c.AppsV1().DaemonSets(ns)),
	}
}

// object is the entry's object and its client, or an error that is errGone.
func (c Cluster) object(ctx context.Context, e Entry) (api, metav1.Object, error) {
	o := e.Change.Object
	client, known := resources(c.Client, o.Namespace)[o.Resource]
	if !known {
		return api{}, nil, fmt.Errorf("%w: this version knows no resource %q", ErrFinal, o.Resource)
	}
	found, err := client.get(ctx, o.Name)
	if apierrors.IsNotFound(err) {
		return client, nil, fmt.Errorf("%s %w", o, errGone)
	}
	if err != nil {
		return client, nil, fmt.Errorf("look at %s: %w", o, err)
	}
	if o.UID != "" && string(found.GetUID()) != o.UID {
		return client, nil, fmt.Errorf("%s of that run %w, another has its name", o, errGone)
	}
	return client, found, nil
}

// remove deletes an object of the run's. It does not exist yet when its intent is written, so its label
// and not its UID tells whose it is.
func (c Cluster) remove(ctx context.Context, e Entry) (string, error) {
	client, found, err := c.object(ctx, e)
	if err != nil {
		return ok("", err)
	}
	if found.GetLabels()[RunLabel] != e.Run {
		return fmt.Sprintf("%s is not this run's", e.Change.Object), nil
	}
	uid, now := found.GetUID(), int64(0)
	opts := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := client.delete(ctx, found.GetName(), opts); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("delete %s: %w", e.Change.Object, err)
	}
	_, again, err := c.object(ctx, e)
	if err != nil {
		return ok("", err)
	}
	if again.GetUID() == uid {
		return "", fmt.Errorf("%s is still there", e.Change.Object)
	}
	return fmt.Sprintf("%s %s", e.Change.Object, errGone), nil
}

// Patched is the Prior of ObjectChanged. The change writes the annotation RunLabel together with all
// else; Back takes it away again.
type Patched struct {
	Type types.PatchType `json:"type"`
	Back json.RawMessage `json:"back"`
}

// restore patches an object back, if it still carries the run's annotation.
func (c Cluster) restore(ctx context.Context, e Entry) (string, error) {
	var prior Patched
	if err := json.Unmarshal(e.Change.Prior, &prior); err != nil {
		return "", fmt.Errorf("%w: read the patch: %w", ErrFinal, err)
	}
	client, found, err := c.object(ctx, e)
	if err != nil {
		return ok("", err)
	}
	if found.GetAnnotations()[RunLabel] != e.Run {
		return fmt.Sprintf("%s has no change of this run", e.Change.Object), nil
	}
	if err := client.patch(ctx, found.GetName(), prior.Type, prior.Back); err != nil {
		return "", fmt.Errorf("patch %s back: %w", e.Change.Object, err)
	}
	if _, found, err = c.object(ctx, e); err != nil {
		return ok("", err)
	}
	if found.GetAnnotations()[RunLabel] == e.Run {
		return "", fmt.Errorf("%s still has the change of this run", e.Change.Object)
	}
	if err := c.dropPods(ctx, e, found); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is as it was", e.Change.Object), nil
}

// dropPods deletes the pods that a StatefulSet made of the run's template: its controller waits for ever
// for one that never becomes ready, also after its template is back.
func (c Cluster) dropPods(ctx context.Context, e Entry, set metav1.Object) error {
	if _, is := set.(*appsv1.StatefulSet); !is {
		return nil
	}
	list, err := c.Client.CoreV1().Pods(set.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look at the pods of %s: %w", e.Change.Object, err)
	}
	for _, p := range list.Items {
		if !metav1.IsControlledBy(&p, set) || p.Annotations[RunLabel] != e.Run || p.DeletionTimestamp != nil {
			continue
		}
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
		if err := c.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, opts); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s of the run's template: %w", p.Name, err)
		}
	}
	return nil
}
