package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/lab"
)

func TestPlanKnowsTheChart(t *testing.T) {
	got := planFor(t, "rollout-under-fire").Facts.Components
	if p := got["proxy"]; p.Replicas != 3 || p.Recreate || p.Budget == nil || p.Budget.MinAvailable != 2 {
		t.Errorf("proxy: %+v", p)
	}
	if a := got["auth"]; a.Replicas != 2 || a.MaxSurge != 0 || a.MaxUnavailable != 1 || a.Budget == nil {
		t.Errorf("auth: %+v", a)
	}
	one := planFor(t, "steady", "teleport.from.values.auth.highAvailability.replicaCount=1").Facts.Components["auth"]
	if one.Replicas != 1 || !one.Recreate {
		t.Errorf("a single auth is replaced at once: %+v", one)
	}
}

func TestOfDeployment(t *testing.T) {
	n := func(i int32) *int32 { return &i }
	of := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	for _, row := range []struct {
		why  string
		spec appsv1.DeploymentSpec
		want scenarios.Component
	}{
		{"Kubernetes' own defaults: a quarter, surge rounded up and unavailable down", appsv1.DeploymentSpec{Replicas: n(3)},
			scenarios.Component{Replicas: 3, MaxSurge: 1, MaxUnavailable: 0}},
		{"one replica if nothing is said", appsv1.DeploymentSpec{}, scenarios.Component{Replicas: 1, MaxSurge: 1}},
		{"numbers and shares that are given", appsv1.DeploymentSpec{Replicas: n(4), Strategy: appsv1.DeploymentStrategy{
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: of("0"), MaxUnavailable: of("50%")}}},
			scenarios.Component{Replicas: 4, MaxUnavailable: 2}},
		{"one that is taken down before it comes anew", appsv1.DeploymentSpec{Replicas: n(1), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}},
			scenarios.Component{Replicas: 1, MaxSurge: 1, Recreate: true}},
	} {
		if diff := cmp.Diff(row.want, ofDeployment(appsv1.Deployment{Spec: row.spec})); diff != "" {
			t.Errorf("%s: %s", row.why, diff)
		}
	}
}

func TestApart(t *testing.T) {
	term := func(key, app string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}}, Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}}}}}
	}
	for _, row := range []struct {
		why  string
		of   corev1.PodTemplateSpec
		want bool
	}{
		{"no affinity", corev1.PodTemplateSpec{}, false},
		{"its own pods, by host", term(corev1.LabelHostname, "proxy"), true},
		{"other pods", term(corev1.LabelHostname, "auth"), false},
		{"its own, by zone", term(corev1.LabelTopologyZone, "proxy"), false},
	} {
		if got := apart(row.of); got != row.want {
			t.Errorf("%s: %t", row.why, got)
		}
	}
}

func TestBudgetOf(t *testing.T) {
	of := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	for _, row := range []struct {
		why  string
		spec policyv1.PodDisruptionBudgetSpec
		app  string
		want *scenarios.Budget
	}{
		{"so many at least", policyv1.PodDisruptionBudgetSpec{MinAvailable: of("2")}, "proxy", &scenarios.Budget{Name: "b", MinAvailable: 2}},
		{"a share, rounded up", policyv1.PodDisruptionBudgetSpec{MinAvailable: of("50%")}, "proxy", &scenarios.Budget{Name: "b", MinAvailable: 2}},
		{"so many away at most", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: of("1")}, "proxy", &scenarios.Budget{Name: "b", MinAvailable: 2}},
		{"of other pods", policyv1.PodDisruptionBudgetSpec{MinAvailable: of("2")}, "auth", nil},
	} {
		components := map[string]scenarios.Component{"proxy": {Replicas: 3}}
		row.spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": row.app}}
		err := addBudget(components, map[string]labels.Set{"proxy": {"app": "proxy"}}, policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: row.spec})
		if diff := cmp.Diff(row.want, components["proxy"].Budget); diff != "" || err != nil {
			t.Errorf("%s: %v %s", row.why, err, diff)
		}
	}
}

// TestPlanShowsTheStorageThatARunBrings: several auths of a chart that is no stand-in's share an etcd, unless its
// author says where they store.
func TestPlanShowsTheStorageThatARunBrings(t *testing.T) {
	chart := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: teleport-cluster\nversion: 13.0.0\n",
		"templates/auth.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: auth, labels: {app.kubernetes.io/component: auth}}\n" +
			"spec: {replicas: {{ .Values.auth.highAvailability.replicaCount }}, selector: {}, template: {metadata: {}, spec: {}}}\n",
	} {
		path := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const storage = "auth.teleportConfig.teleport.storage"
	for _, row := range []struct {
		why    string
		auth   string
		brings bool
	}{
		{"one auth has its own disk", "{highAvailability: {replicaCount: 1}}", false},
		{"two share an etcd", "{highAvailability: {replicaCount: 2}}", true},
		{"two that store where their author says", "{highAvailability: {replicaCount: 2}, teleportConfig: {teleport: {storage: {type: dynamodb}}}}", false},
	} {
		text, err := scenarios.Text("steady")
		if err != nil {
			t.Fatal(err)
		}
		from := "teleport.from={chart: " + chart + ", version: 13.0.0, values: {auth: " + row.auth + "}}"
		s, err := scenarios.Decode("steady.yaml", text, DecodeOptions([]string{from}))
		if err != nil {
			t.Fatal(err)
		}
		_, defaults, err := MakePlan(t.Context(), s, "embedded", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(defaults, func(d lab.Default) bool { return d.Path == storage && d.Reason != "" }); got != row.brings {
			t.Errorf("%s: the plan tells of storage: %t, in %+v", row.why, got, defaults)
		}
	}
}
