package run

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/agents"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
)

// TestTheControlArmStandsAside: what is installed is kept off the nodes that faults name, and has its other values.
func TestTheControlArmStandsAside(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}})
	kill := scenarios.Do{Action: "nodeKill", Selects: map[string]*scenarios.Selection{"select": {Node: &scenarios.NodeSelection{Name: "node2"}, Count: 1}}}
	drain := scenarios.Do{Action: "nodeDrain", Selects: map[string]*scenarios.Selection{"select": {Node: &scenarios.NodeSelection{Running: "proxy", Without: "etcd"}, Count: 1}}}
	s := &system{client: client, plan: &scenarios.Plan{Timeline: []scenarios.Step{
		{ID: "kill", Fault: true, Hits: scenarios.HitsNodes, Do: &kill}, {ID: "drain", Fault: true, Hits: scenarios.HitsNodes, Do: &drain},
	}}}
	fleet := agents.Fleet{Pods: 1, Direct: true}
	var err error
	if fleet.Extra, err = s.asideOf(t.Context(), helm.Values{"terminationGracePeriodSeconds": 7}); err != nil {
		t.Fatal(err)
	}
	chart, err := helm.Ref{Chart: helm.Agents}.Load(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := helm.Render(chart, controlRelease, "lab", "", fleet.Values(lab.Facts{Release: "teleport", Namespace: "lab", AgentToken: "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			out, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			text = string(out)
		}
	}
	for _, want := range []string{"matchFields:\n              - key: metadata.name\n                operator: NotIn\n                values:\n                - node2\n",
		"app.kubernetes.io/component: proxy\n              topologyKey: kubernetes.io/hostname\n            weight: 2",
		"podAffinity:\n          preferredDuringSchedulingIgnoredDuringExecution:\n          - podAffinityTerm:\n              labelSelector:\n                matchLabels:\n                  app.kubernetes.io/component: etcd\n              topologyKey: kubernetes.io/hostname\n            weight: 100",
		"terminationGracePeriodSeconds: 7"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Deployment has no %q:\n%s", want, text)
		}
	}
}
