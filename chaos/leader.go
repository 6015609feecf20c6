package chaos

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var isLeader = regexp.MustCompile(`(?m)^etcd_server_is_leader 1`)

// FindLeader is the pod of a component that leads, as the component itself says: the metrics of an etcd
// member, or a Lease of the namespace that names the pod as its holder. None is an error: Teleport's own
// parts have no leader.
func (w World) FindLeader(ctx context.Context, component string) (types.UID, error) {
	list, err := w.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: w.selector(component)})
	if err != nil {
		return "", fmt.Errorf("look for the leader of %s: %w", component, err)
	}
	leases, err := w.Client.CoordinationV1().Leases(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("look for the leader of %s: %w", component, err)
	}
	for _, p := range list.Items {
		for _, l := range leases.Items {
			// Holders sign with the host name, and often with a random part behind it (client-go's leaderelection).
			if h := l.Spec.HolderIdentity; h != nil && (*h == p.Name || strings.HasPrefix(*h, p.Name+"_")) {
				return p.UID, nil
			}
		}
	}
	var errs []error
	for i := range list.Items {
		text, err := w.metrics(ctx, &list.Items[i])
		if err == nil && isLeader.MatchString(text) {
			return list.Items[i].UID, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("%w: no Lease and no metrics of etcd say which pod of %s leads: %w", ErrEmpty, component, errors.Join(errs...))
}

// leads is what an etcd member's metrics say of whether it has a leader.
func (w World) leads(ctx context.Context, p *corev1.Pod) (string, error) {
	text, err := w.metrics(ctx, p)
	if err != nil {
		return "", err
	}
	found := hasLeader.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("the metrics of %s do not say whether it has a leader", p.Name)
	}
	return found[1], nil
}
