package agents

import (
	"testing"

	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/tctl"
)

func TestValuesRender(t *testing.T) {
	facts := lab.Facts{Release: "teleport", Namespace: "lab", AgentToken: "secret"}
	for name, f := range map[string]Fleet{
		"tunnel": {Pods: 4, PerPod: 5, Version: "1.0.0", Labels: map[string]string{"fleet": "x"}},
		"direct": {Pods: 1, Direct: true, Image: "example.com/teleport", Extra: helm.Values{"terminationGracePeriodSeconds": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := helm.Ref{Chart: helm.Agents}.Load(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			objects, err := helm.Render(c, "agents", "lab", "", f.Values(facts))
			if err != nil {
				t.Fatal(err)
			}
			containers := 0
			for _, o := range objects {
				if o.GetKind() == "Deployment" {
					spec := o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
					containers = len(spec["containers"].([]any))
				}
			}
			if containers != max(f.PerPod, 1) {
				t.Errorf("%d containers in a pod, want %d", containers, max(f.PerPod, 1))
			}
		})
	}
}

func TestNamed(t *testing.T) {
	got := Named([]tctl.Node{{UUID: "u", Host: "agents-7d9-abc-12"}, {UUID: "v", Host: "elsewhere"}}, []pods.Pod{{Name: "agents-7d9-abc", UID: "p"}, {Name: "agents-7d9", UID: "q"}})
	if got[0].Pod.UID != "p" || got[1].Pod.UID != "" {
		t.Errorf("got %+v", got)
	}
}

func TestComplete(t *testing.T) {
	if (Status{Want: 2, Registered: 2, Dialable: 1}).Complete() {
		t.Error("a fleet with a node that nobody can reach is not complete")
	}
}
