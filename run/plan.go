package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
)

// changes are the actions of the conductor itself, beside the faults of chaos.
var changes = []string{"helmUpgrade", "helmRollback", "restart", "scale", "heal"}

// Vocabulary is the actions that this version carries out.
func Vocabulary() scenarios.Vocabulary {
	return scenarios.Words().Only(append(chaos.Names(), changes...)...)
}

// DecodeOptions are those with which a scenario must be read to be run: words,
// expressions and sessions that this version knows, and no others.
func DecodeOptions(set []string) scenarios.Options {
	return scenarios.Options{Words: Vocabulary(), Set: set, Expr: checks.ExprCheck, Sessions: load.Supports}
}

// MakePlan renders the scenario's chart as the named provider would have it,
// and plans over what that shows. No cluster is touched. The defaults are the
// values that were filled in.
func MakePlan(ctx context.Context, s *scenarios.Scenario, provider string, seed uint64) (*scenarios.Plan, []lab.Default, error) {
	first, err := scenarios.NewPlan(s, scenarios.Facts{Provider: provider, Nodes: s.Cluster.Nodes}, seed)
	if err != nil {
		return nil, nil, err
	}
	values, defaults, err := filled(first, provider)
	if err != nil {
		return nil, nil, err
	}
	chart, err := helm.Ref{Chart: first.Teleport.From.Chart, Version: first.Teleport.From.Version}.Load(ctx, "")
	if err != nil {
		return nil, nil, fmt.Errorf("chart of teleport.from: %w", err)
	}
	objects, err := helm.Render(chart, first.Teleport.Release, first.Teleport.Namespace, "", values)
	if err != nil {
		return nil, nil, fmt.Errorf("render teleport.from: %w", err)
	}
	components, err := componentsOf(objects)
	if err != nil {
		return nil, nil, fmt.Errorf("render teleport.from: %w", err)
	}
	if n := first.Teleport.Agents.Pods; n > 0 {
		// Installed beside the chart, by one that sets no strategy.
		count := int32(n) //nolint:gosec // bounded by the scenario's language
		components[pods.Agent] = ofDeployment(appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &count}})
	}
	plan, err := scenarios.NewPlan(s, scenarios.Facts{Provider: provider, Nodes: s.Cluster.Nodes, Components: components}, seed)
	return plan, defaults, err
}

// filled are the values that the run will install, and what it adds to the author's.
func filled(p *scenarios.Plan, provider string) (helm.Values, []lab.Default, error) {
	s := &system{plan: p, facts: labFacts(p, provider)}
	if err := s.needsStorage(""); err != nil {
		return nil, nil, err
	}
	values, defaults := s.fill(p.Teleport.From)
	return values, defaults, nil
}

// labFacts are the facts that the defaults depend on, as far as they are known
// without a cluster.
func labFacts(p *scenarios.Plan, provider string) lab.Facts {
	return lab.Facts{
		Release: p.Teleport.Release, Namespace: p.Teleport.Namespace,
		StorageClass: "standard", LoadBalancer: balances(provider),
		Standin: helm.Ref{Chart: p.Teleport.From.Chart}.Builtin(),
	}
}

// componentsOf reads the workloads and budgets out of rendered objects.
func componentsOf(objects []helm.Object) (map[string]scenarios.Component, error) {
	out := map[string]scenarios.Component{}
	pods := map[string]labels.Set{}
	for _, o := range objects {
		name := o.GetLabels()["app.kubernetes.io/component"]
		switch o.GetKind() {
		case "Deployment":
			var d appsv1.Deployment
			if err := convert(o, &d); err != nil {
				return nil, err
			}
			out[name], pods[name] = ofDeployment(d), d.Spec.Template.Labels
		case "StatefulSet":
			var s appsv1.StatefulSet
			if err := convert(o, &s); err != nil {
				return nil, err
			}
			out[name] = scenarios.Component{Replicas: replicas(s.Spec.Replicas), MaxUnavailable: 1, Apart: apart(s.Spec.Template)}
			pods[name] = s.Spec.Template.Labels
		}
	}
	for _, o := range objects {
		if o.GetKind() != "PodDisruptionBudget" {
			continue
		}
		var b policyv1.PodDisruptionBudget
		if err := convert(o, &b); err != nil {
			return nil, err
		}
		if err := addBudget(out, pods, b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func convert(o helm.Object, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func ofDeployment(d appsv1.Deployment) scenarios.Component {
	n := replicas(d.Spec.Replicas)
	c := scenarios.Component{Replicas: n, Apart: apart(d.Spec.Template), Recreate: d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType}
	quarter := intstr.FromString("25%")
	surge, unavailable := &quarter, &quarter // Kubernetes' own defaults
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxSurge != nil {
			surge = r.MaxSurge
		}
		if r.MaxUnavailable != nil {
			unavailable = r.MaxUnavailable
		}
	}
	c.MaxSurge, c.MaxUnavailable = share(surge, n, true), share(unavailable, n, false)
	return c
}

// share works a count or percentage out; Kubernetes rounds surge up and
// unavailable down.
func share(v *intstr.IntOrString, n int, up bool) int {
	got, err := intstr.GetScaledValueFromIntOrPercent(v, n, up)
	if err != nil {
		return 0
	}
	return got
}

// apart says whether the template forbids two of its pods on one node.
func apart(t corev1.PodTemplateSpec) bool {
	if t.Spec.Affinity == nil || t.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for _, term := range t.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		s, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && term.TopologyKey == corev1.LabelHostname && s.Matches(labels.Set(t.Labels)) {
			return true
		}
	}
	return false
}

// addBudget gives the budget to the components whose pods it selects.
func addBudget(out map[string]scenarios.Component, pods map[string]labels.Set, b policyv1.PodDisruptionBudget) error {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return fmt.Errorf("PodDisruptionBudget %s: %w", b.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if !s.Matches(pods[name]) {
			continue
		}
		c := out[name]
		least := 0
		switch {
		case b.Spec.MinAvailable != nil:
			least = share(b.Spec.MinAvailable, c.Replicas, true)
		case b.Spec.MaxUnavailable != nil:
			least = max(0, c.Replicas-share(b.Spec.MaxUnavailable, c.Replicas, true))
		}
		c.Budget = &scenarios.Budget{Name: b.Name, MinAvailable: least}
		out[name] = c
	}
	return nil
}
