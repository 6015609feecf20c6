package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/undo"
)

// endpoints are the UIDs of the pods that stand ready behind a Service of the namespace.
func (w World) endpoints(ctx context.Context) (map[types.UID]bool, error) {
	list, err := w.Client.DiscoveryV1().EndpointSlices(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at the endpoints: %w", err)
	}
	out := map[types.UID]bool{}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			// Nil means ready, by the API's definition.
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out[e.TargetRef.UID] = true
			}
		}
	}
	return out, nil
}

// uids are the UIDs of all pods of the namespace.
func (w World) uids(ctx context.Context) (map[types.UID]bool, error) {
	pods, err := w.podsIn(ctx, w.Namespace)
	out := map[types.UID]bool{}
	for _, p := range pods {
		out[p.UID] = true
	}
	return out, err
}

func (w World) podsIn(ctx context.Context, ns string) ([]corev1.Pod, error) {
	list, err := w.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at the pods: %w", err)
	}
	return list.Items, nil
}

// readyNodes counts them.
func (w World) readyNodes(ctx context.Context) (int, error) {
	list, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("look at the nodes: %w", err)
	}
	n := 0
	for i := range list.Items {
		if undo.NodeReady(&list.Items[i]) {
			n++
		}
	}
	return n, nil
}
