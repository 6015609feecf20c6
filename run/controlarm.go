package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/pods"
)

// asideOf lays over the values of the control arm's fleet where its pod is to stand: on a node that no fault names,
// and rather where faults would not go anyway, next where no proxy and no auth is, so that faults which spare its node
// have all of these to choose from.
func (s *system) asideOf(ctx context.Context, values helm.Values) (helm.Values, error) {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("find a node for the control arm: %w", err)
	}
	affinity := helm.Values{"podAntiAffinity": preferred(nearTo(pods.Proxy, 2), nearTo(pods.Auth, 1))}
	var with []any
	for _, component := range scenarios.AvoidedWith(s.plan.Timeline) {
		with = append(with, nearTo(component, 100))
	}
	if len(with) > 0 {
		affinity["podAffinity"] = preferred(with...)
	}
	if named := chaos.NamedNodes(nodes.Items, s.plan.Timeline); len(named) > 0 {
		affinity["nodeAffinity"] = keepOff(named)
	}
	return helm.Merge(values, helm.Values{"affinity": affinity}), nil
}

func preferred(terms ...any) helm.Values {
	return helm.Values{"preferredDuringSchedulingIgnoredDuringExecution": terms}
}

// nearTo are the nodes that carry pods of the component; each pod there counts.
func nearTo(component string, weight int) helm.Values {
	return helm.Values{"weight": weight, "podAffinityTerm": helm.Values{
		"topologyKey":   corev1.LabelHostname,
		"labelSelector": helm.Values{"matchLabels": helm.Values{"app.kubernetes.io/component": component}},
	}}
}

// keepOff is the node affinity of who may stand on none of these.
func keepOff(nodes []string) helm.Values {
	var fields []any
	for _, n := range nodes {
		// The API takes one value for each.
		fields = append(fields, helm.Values{"key": metav1.ObjectNameField, "operator": "NotIn", "values": []any{n}})
	}
	return helm.Values{"requiredDuringSchedulingIgnoredDuringExecution": helm.Values{
		"nodeSelectorTerms": []any{helm.Values{"matchFields": fields}},
	}}
}
