package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

func TestWhatTheScenarioExpectsOfHelm(t *testing.T) {
	failed := errors.New("hook failed")
	for _, row := range []struct {
		why, want string
		err       error
		ok        bool
	}{
		{"success is expected unless the scenario says otherwise", "", nil, true},
		{"a failure that nobody expects", "", failed, false},
		{"a failure that is expected", "failure", failed, true},
		{"a success where a failure is expected", "failure", nil, false},
		{"anything", "any", failed, true},
		{"anything, success too", "any", nil, true},
	} {
		if got := expected(row.want, row.err); (got == nil) != row.ok {
			t.Errorf("%s: %v", row.why, got)
		}
	}
}

func TestPatchWorkload(t *testing.T) {
	meta := func(release, component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: release + "-" + component, Namespace: "teleport",
			Labels: map[string]string{"app.kubernetes.io/instance": release, "app.kubernetes.io/component": component}}
	}
	tr, _ := rig(t, &appsv1.Deployment{ObjectMeta: meta("teleport", "proxy")}, &appsv1.StatefulSet{ObjectMeta: meta("agents", "agent")},
		&appsv1.Deployment{ObjectMeta: meta("other", "auth")})
	for _, component := range []string{"proxy", "agent"} {
		if err := tr.patchWorkload(t.Context(), component, `{"spec":{"replicas":5}}`); err != nil {
			t.Errorf("%s: %v", component, err)
		}
	}
	d, err := tr.system.client.AppsV1().Deployments("teleport").Get(t.Context(), "teleport-proxy", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 5 {
		t.Errorf("the Deployment: %v, %v", d.Spec.Replicas, err)
	}
	s, err := tr.system.client.AppsV1().StatefulSets("teleport").Get(t.Context(), "agents-agent", metav1.GetOptions{})
	if err != nil || *s.Spec.Replicas != 5 {
		t.Errorf("the StatefulSet of the agents' release: %v, %v", s.Spec.Replicas, err)
	}
	if err := tr.patchWorkload(t.Context(), "auth", `{}`); err == nil || !strings.Contains(err.Error(), `component "auth" has no`) {
		t.Errorf("another release's workload was taken: %v", err)
	}
}

// A rollout that fails has its end in the history all the same, with the reason.
func TestRolloutTellsItsEnd(t *testing.T) {
	tr, b := rig(t)
	broken := errors.New("broken")
	step := scenarios.Step{ID: "up", Name: "up", Do: &scenarios.Do{Args: scenarios.Args{"timeout": "1m"}}}
	err := tr.rollout(t.Context(), step, history.Rollout{Verb: "upgrade", From: "1", To: "2"}, func(ctx context.Context) error {
		if timeoutOf(ctx) > time.Minute {
			t.Error("the entry's timeout does not bound it")
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	var stages []string
	for _, r := range payloads[history.Rollout](b) {
		stages = append(stages, string(r.Stage)+" "+r.Error)
	}
	want := []string{string(history.RolloutStart) + " ", string(history.RolloutHelmCalled) + " ", string(history.RolloutHelmReturned) + " broken", string(history.RolloutEnd) + " broken"}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Error(diff)
	}
}
