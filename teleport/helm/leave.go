package helm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// EphemeralLabel marks the releases of a run that are to end with it, on a cluster that stays.
const EphemeralLabel = "shakedown.dev/ends-with-run"

// Left is what a run installed in a namespace and has not taken away.
type Left struct {
	Run, Namespace string
	Releases       []string
	Ephemeral      bool // it was to end with the run
}

// owned selects the secrets that Helm keeps revisions in, of releases that some run made.
const owned = "owner=helm," + RunLabel

// Lefts finds the releases that runs made, in a namespace or (empty) in all. run chooses one run; empty: all.
func Lefts(ctx context.Context, client kubernetes.Interface, namespace, run string) ([]Left, error) {
	selector := owned
	if run != "" {
		selector += "=" + run
	}
	list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("look for releases of runs: %w", err)
	}
	found := map[[2]string]Left{}
	for _, s := range list.Items {
		key := [2]string{s.Labels[RunLabel], s.Namespace}
		l := found[key]
		l.Run, l.Namespace = key[0], key[1]
		l.Ephemeral = l.Ephemeral || s.Labels[EphemeralLabel] != ""
		if name := s.Labels["name"]; !slices.Contains(l.Releases, name) {
			l.Releases = append(l.Releases, name)
		}
		found[key] = l
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Left) int {
		return slices.Compare([]string{a.Run, a.Namespace}, []string{b.Run, b.Namespace})
	}), nil
}

// made are the kinds of objects that a run makes beside its releases, or that hooks leave. PersistentVolumeClaims are
// among them only if they carry the run's label: others may hold what somebody wants.
var made = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "persistentvolumeclaims"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
}

// Leave takes away what carries the run's label in the namespace: releases, then what is left beside them, then the
// namespace itself if the run made it. Nothing else is touched, nor what heal still needs. It may be done again.
func Leave(ctx context.Context, config *rest.Config, namespace, run string, log *slog.Logger) error {
	if run == "" {
		return errors.New("leave: no run is named")
	}
	c, err := New(config, namespace, run, log)
	if err != nil {
		return err
	}
	lefts, err := Lefts(ctx, c.kube, namespace, run)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range lefts {
		for _, name := range l.Releases {
			errs = append(errs, c.Uninstall(name, remaining(ctx)))
		}
	}
	if err := errors.Join(append(errs, c.sweep(ctx))...); err != nil {
		return err
	}
	return c.leaveNamespace(ctx)
}

// remaining is the time that ctx leaves, as Helm wants to know it.
func remaining(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return 5 * time.Minute
}

// sweep deletes single objects of the run. The intents that heal reads stay.
func (c *Client) sweep(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	var errs []error
	for _, resource := range made {
		of := client.Resource(resource).Namespace(c.namespace)
		list, err := of.List(ctx, metav1.ListOptions{LabelSelector: RunLabel + "=" + c.run + ",shakedown.dev/role!=undo"})
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s of the run: %w", resource.Resource, err))
			continue
		}
		for _, o := range list.Items {
			err := of.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("delete %s %s: %w", resource.Resource, o.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// leaveNamespace deletes the namespace if the run made it, and waits until it is gone.
func (c *Client) leaveNamespace(ctx context.Context) error {
	namespaces := c.kube.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, c.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || ns.Labels[RunLabel] != c.run {
		return err
	}
	err = namespaces.Delete(ctx, c.namespace, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(ns.UID))})
	for err == nil {
		now, getErr := namespaces.Get(ctx, c.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) || getErr == nil && now.UID != ns.UID {
			return nil
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("namespace %s does not end: %w", c.namespace, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
