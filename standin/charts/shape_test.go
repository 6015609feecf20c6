package charts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// shape is what of a rendered chart decides how a rollout goes: one line of text per field.
type shape map[string]string

// TestShape compares our rendering with the teleport-cluster chart's, field by field, for shared values.
// What that chart (13.0.0-dev) renders is written down in testdata/shape; with TELEPORT_CLUSTER_CHART
// set to a copy of it, it is rendered again, and with -update written down again.
func TestShape(t *testing.T) {
	for name, values := range shared {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "shape", name+".json")
			if real := os.Getenv("TELEPORT_CLUSTER_CHART"); real != "" {
				compareReal(t, real, path, values)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := shape{}
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			_, objects, err := render(t, mustLoad(t, Cluster, "13.0.0"), values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, shapeOf(t, objects)); diff != "" {
				t.Errorf("not as teleport-cluster renders (-theirs +ours):\n%s", diff)
			}
		})
	}
}

func compareReal(t *testing.T, chart, path, values string) {
	t.Helper()
	_, objects, err := render(t, loadForeign(t, chart), values+"\npodSecurityPolicy: {enabled: false}\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(shapeOf(t, objects), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s is not what %s renders:\n%s", path, chart, diff)
	}
}

// shared are values that both charts understand. Replicas stand under both components:
// 13.0.0-dev lets what is said of one component leak into the other.
var shared = map[string]string{
	"single":   "clusterName: tele.example.com\n",
	"multiple": lab,
	"separate": lab + "proxyListenerMode: separate\nsessionRecording: proxy\npersistence: {enabled: false}\nterminationGracePeriodSeconds: 75\n",
	"careful": `
clusterName: tele.example.com
tls: {existingSecretName: teleport-tls}
highAvailability: {replicaCount: 3, requireAntiAffinity: true, minReadySeconds: 20, podDisruptionBudget: {enabled: true, minAvailable: 2}}
persistence: {existingClaimName: data}
service: {type: NodePort}
probeTimeoutSeconds: 3
postStart: {command: ["true"]}
`,
	"unchecked": lab + "validateConfigOnDeploy: false\ncreateProxyToken: false\nteleportVersionOverride: 13.1.2\n",
}

func shapeOf(t *testing.T, objects []object) shape {
	t.Helper()
	s := shape{}
	for _, o := range objects {
		at := o.GetKind() + "/" + o.GetName()
		if hook := o.GetAnnotations()["helm.sh/hook"]; hook != "" {
			s[at+" hook"] = fmt.Sprintf("%s weight %s delete %s", hook, o.GetAnnotations()["helm.sh/hook-weight"], o.GetAnnotations()["helm.sh/hook-delete-policy"])
		}
		switch o.GetKind() {
		case "Deployment":
			deployment(t, s, at, convert[appsv1.Deployment](t, o))
		case "Service":
			service(s, at, convert[corev1.Service](t, o))
		case "PodDisruptionBudget":
			s[at] = "minAvailable " + convert[policyv1.PodDisruptionBudget](t, o).Spec.MinAvailable.String()
		case "PersistentVolumeClaim", "ServiceAccount", "ClusterRole", "ClusterRoleBinding":
			s[at] = "there"
		}
	}
	return s
}

func convert[T any](t *testing.T, o object) T {
	t.Helper()
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out); err != nil {
		t.Fatalf("%s/%s: %v", o.GetKind(), o.GetName(), err)
	}
	return out
}

func deployment(t *testing.T, s shape, at string, d appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	s[at+" replicas"] = fmt.Sprintf("%d, ready for %ds", *d.Spec.Replicas, d.Spec.MinReadySeconds)
	s[at+" strategy"] = string(d.Spec.Strategy.Type)
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s[at+" strategy"] += fmt.Sprintf(" surge %s unavailable %s", r.MaxSurge, r.MaxUnavailable)
	}
	s[at+" grace"] = fmt.Sprint(*pod.TerminationGracePeriodSeconds)
	s[at+" preStop"] = strings.Join(c.Lifecycle.PreStop.Exec.Command, " ")
	if post := c.Lifecycle.PostStart; post != nil {
		s[at+" postStart"] = strings.Join(post.Exec.Command, " ")
	}
	s[at+" args"] = strings.Join(c.Args, " ")
	s[at+" liveness"], s[at+" readiness"] = probe(c.LivenessProbe), probe(c.ReadinessProbe)
	s[at+" checksum"] = fmt.Sprint(len(d.Spec.Template.Annotations["checksum/config"]) == 64)
	s[at+" majorVersion"] = d.Spec.Template.Labels["teleport.dev/majorVersion"]
	s[at+" serviceAccount"] = pod.ServiceAccountName
	for _, init := range pod.InitContainers {
		s[at+" init "+init.Name] = strings.Join(init.Command, " ")
	}
	antiAffinity(s, at, pod.Affinity)
	for _, v := range pod.Volumes {
		s[at+" volume "+v.Name] = volume(v)
	}
	for _, m := range c.VolumeMounts {
		s[at+" mount "+m.Name] = m.MountPath
	}
}

func antiAffinity(s shape, at string, a *corev1.Affinity) {
	if a == nil || a.PodAntiAffinity == nil {
		return
	}
	for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		s[at+" apart"] = "required " + selects(term)
	}
	for _, term := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		s[at+" apart"] = fmt.Sprintf("preferred %d %s", term.Weight, selects(term.PodAffinityTerm))
	}
}

// selects names the component a term keeps away from, however its selector is written.
func selects(term corev1.PodAffinityTerm) string {
	const key = "app.kubernetes.io/component"
	if v := term.LabelSelector.MatchLabels[key]; v != "" {
		return v + " by " + term.TopologyKey
	}
	for _, e := range term.LabelSelector.MatchExpressions {
		if e.Key == key {
			return strings.Join(e.Values, ",") + " by " + term.TopologyKey
		}
	}
	return "nothing"
}

func probe(p *corev1.Probe) string {
	return fmt.Sprintf("%s delay %d period %d fail %d timeout %d", p.HTTPGet.Path, p.InitialDelaySeconds, p.PeriodSeconds, p.FailureThreshold, p.TimeoutSeconds)
}

func volume(v corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return "emptyDir"
	case v.PersistentVolumeClaim != nil:
		return "claim " + v.PersistentVolumeClaim.ClaimName
	case v.Secret != nil:
		return "secret " + v.Secret.SecretName
	case v.ConfigMap != nil:
		return "configMap " + v.ConfigMap.Name
	}
	return "other"
}

func service(s shape, at string, svc corev1.Service) {
	s[at] = fmt.Sprintf("%s clusterIP %q publishNotReady %t", svc.Spec.Type, svc.Spec.ClusterIP, svc.Spec.PublishNotReadyAddresses)
	s[at+" selects"] = strings.TrimSpace(svc.Spec.Selector["app.kubernetes.io/component"] + " " + svc.Spec.Selector["teleport.dev/majorVersion"])
	for _, p := range svc.Spec.Ports {
		s[at+" port "+p.Name] = fmt.Sprintf("%d to %s", p.Port, p.TargetPort.String())
	}
}
