package run

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/run/watch"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
)

// book is a history in memory.
type book struct {
	mu  sync.Mutex
	all []history.Event
}

func (b *book) Now() time.Duration            { return 0 }
func (b *book) Since(time.Time) time.Duration { return 0 }
func (b *book) Record(e history.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, e)
}

// payloads are those of one type, in order.
func payloads[T history.Payload](b *book) (out []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.all {
		if d, ok := e.Data.(T); ok {
			out = append(out, d)
		}
	}
	return out
}

// rig is a trial over a fake cluster with these objects, which its watch has seen.
func rig(t *testing.T, objects ...runtime.Object) (*trial, *book) {
	t.Helper()
	client := fake.NewSimpleClientset(objects...) //nolint:staticcheck // NewClientset takes 50 times as long
	b := &book{}
	tr := &trial{
		runner: &runner{plan: &scenarios.Plan{Teleport: scenarios.Teleport{Release: "teleport", Namespace: "teleport"}}},
		state:  watch.NewState(b),
		system: &system{client: client, values: helm.Values{}},
	}
	tr.plan.Teleport.Agents.PerPod = 1
	w, err := watch.Start(t.Context(), watch.Config{Client: client, Namespace: "teleport", State: tr.state,
		Ready: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	if err := w.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.watch = w
	return tr, b
}

// podOf is a pod of a release, running; mods change it.
func podOf(release, component, name string, mods ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "teleport", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{"app.kubernetes.io/instance": release, "app.kubernetes.io/component": component}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, m := range mods {
		m(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func ending(p *corev1.Pod) {
	now, grace := metav1.Now(), int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &now, &grace, []string{"test"}
}

func agentOf(pod string) history.Agent {
	return history.Agent{UUID: "uuid-" + pod, Host: pod + "-0", Pod: history.PodRef{Name: pod, UID: "uid-" + pod, Component: "agent"}}
}
