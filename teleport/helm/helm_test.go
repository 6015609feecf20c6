package helm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMerge(t *testing.T) {
	base := Values{"a": Values{"x": 1, "y": 2}, "b": 1, "list": []any{1}}
	over := Values{"a": Values{"y": 3, "z": Values{"deep": true}}, "b": nil, "list": []any{2}}
	want := Values{"a": Values{"x": 1, "y": 3, "z": Values{"deep": true}}, "b": nil, "list": []any{2}}
	if diff := cmp.Diff(want, Merge(base, over)); diff != "" {
		t.Error(diff)
	}
	if base["a"].(Values)["y"] != 2 {
		t.Error("base was changed")
	}
	if v, ok := Get(want, "a", "z", "deep"); !ok || v != true {
		t.Errorf("Get gave %v, %t", v, ok)
	}
	if _, ok := Get(want, "b", "c"); ok {
		t.Error("Get found a path through something that is no map")
	}
	if diff := cmp.Diff(Values{"a": Values{"b": 1}}, Set(1, "a", "b")); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefused(t *testing.T) {
	for ref, want := range map[Ref]string{
		{}:                                   "no chart is named",
		{Chart: "./nowhere"}:                 "want standin, a folder",
		{Chart: Standin, Version: "soon"}:    "like 1.1.0",
		{Chart: "oci://127.0.0.1:1/x"}:       "127.0.0.1:1",
		{Chart: "https://127.0.0.1:1/#name"}: "127.0.0.1:1",
	} {
		if _, err := ref.Load(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", ref, err, want)
		}
	}
}

func TestRenderStandin(t *testing.T) {
	c, err := Ref{Chart: Standin, Version: "1.1.0"}.Load(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Render(c, "teleport", "lab", "v1.36.3", Values{"clusterName": "x"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
	}
	if kinds["Deployment"] != 2 || kinds["Job"] != 2 {
		t.Errorf("got %v, want two Deployments and the two hook Jobs", kinds)
	}
	if _, err := Render(c, "teleport", "lab", "", Values{"clusterName": "x", "nope": 1}); err == nil {
		t.Error("a value that the schema does not know was taken")
	}
}

func TestPostRenderer(t *testing.T) {
	in := "# Source: x\nkind: Service\nmetadata: {name: a}\n---\nkind: Job\nmetadata: {name: b, labels: {c: d}}\nspec: {template: {metadata: {labels: {e: f}}}}\n"
	out, err := postRenderer("r1").Run(bytes.NewBufferString(in))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(out.Bytes())
	if err != nil || len(objects) != 2 {
		t.Fatalf("%v, %d objects", err, len(objects))
	}
	for _, o := range objects {
		if o.GetLabels()[RunLabel] != "r1" {
			t.Errorf("%s has labels %v", o.GetName(), o.GetLabels())
		}
	}
	if strings.Count(out.String(), RunLabel) != 2 {
		t.Error("a pod template was labelled: it would roll")
	}
}

func TestStuckPod(t *testing.T) {
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "teleport", Image: "x:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
	}
	running := func(ready bool) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "teleport", Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	}
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes: didn't match pod anti-affinity rules"}}}
	tests := []struct {
		because string
		status  corev1.PodStatus
		stuck   bool
		hint    string
	}{
		{"a pod that is being created is on its way", waiting("ContainerCreating", ""), false, ""},
		{"an image that cannot be pulled", waiting("ImagePullBackOff", "no such tag"), true, "--image"},
		{"a place that does not exist", unschedulable, true, "more nodes than replicas"},
		{"one that its probes say no to", running(false), true, ""},
		{"one that its probes say yes to", running(true), false, ""},
		{"an init container that waits for something", corev1.PodStatus{InitContainerStatuses: running(false).ContainerStatuses}, true, ""},
		{"a pod that runs", corev1.PodStatus{Phase: corev1.PodRunning}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			got, stuck := stuckPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tt.status})
			if stuck != tt.stuck || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got %+v, %t", got, stuck)
			}
		})
	}
}
