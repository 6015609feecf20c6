package chaos

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestReadyOrWorking(t *testing.T) {
	want := int32(3)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agents", Namespace: "lab", UID: "set"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &want}, Status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 1},
	}
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		controls := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "lab", UID: types.UID(name),
				OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "agents", UID: "set", Controller: &controls}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	for _, tt := range []struct {
		says  string
		works Works
		text  string
		err   string
	}{
		{"nobody knows better than readiness", nil, "", "StatefulSet agents has 1 of 3 ready"},
		{"one works, one does not", func(uid types.UID, _ time.Time) bool { return uid == "agents-1" }, "", "StatefulSet agents has 1 of 3 ready"},
		{"both work all the same", func(types.UID, time.Time) bool { return true }, "1 of 3 ready, and 2 that can be reached though not ready", ""},
	} {
		t.Run(tt.says, func(t *testing.T) {
			client := fake.NewClientset(set, pod("agents-0", corev1.ConditionTrue), pod("agents-1", corev1.ConditionFalse), pod("agents-2", corev1.ConditionFalse))
			w := World{Client: client, Namespace: "lab", Works: tt.works}
			text, err := w.allReady(t.Context(), []owner{{"StatefulSet", "lab", "agents", "set"}})
			if tt.err == "" && (err != nil || !strings.Contains(text, tt.text)) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}
