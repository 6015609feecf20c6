package chaos

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// TestPodsFromBeforeAPowerCutAreNotBack: a node that was away so shortly that nobody took note of it is Ready, and its
// pods too, by the API's word from before, until its kubelet has looked at them.
func TestPodsFromBeforeAPowerCutAreNotBack(t *testing.T) {
	for _, row := range []struct {
		action string
		args   scenarios.Args
	}{
		{"nodeRestart", scenarios.Args{"down": "0s"}},
		{"nodeKill", nil},
	} {
		t.Run(row.action, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
				before := map[string]bool{}
				for _, p := range s.pods() {
					before[p.Status.ContainerStatuses[0].ContainerID] = true
				}
				held, err := k.Inject(t.Context(), fault(row.action, row.args, oneNode), 0)
				mustNot(t, err)
				if held.Step.Lasting {
					mustNot(t, k.Heal(t.Context(), held.Step.ID))
				}
				<-held.Done()
				mustNot(t, held.Err())
				node, seen := events()[0].Targets[0].Name, 0
				for _, p := range s.pods() {
					if p.Spec.NodeName != node {
						continue
					}
					seen++
					if id := p.Status.ContainerStatuses[0].ContainerID; before[id] || !isReady(&p) {
						t.Errorf("called healed while pod %s still has container %s, ready %t", p.Name, id, isReady(&p))
					}
				}
				if seen == 0 {
					t.Errorf("no pod on %s", node)
				}
			})
		})
	}
}

func TestAnew(t *testing.T) {
	cut := &powerCut{containers: map[string]bool{"a": true}, sure: map[string]bool{"node1": true}}
	for _, row := range []struct {
		why   string
		cut   *powerCut
		node  string
		ids   []string
		stale bool
	}{
		{"one that ran before the cut", cut, "node1", []string{"a"}, true},
		{"one of two ran before", cut, "node1", []string{"b", "a"}, true},
		{"all were started since", cut, "node1", []string{"b", "c"}, false},
		{"the node may not have lost its power", cut, "node2", []string{"a"}, false},
		{"no power was cut", nil, "node1", []string{"a"}, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: row.node}}
		for _, id := range row.ids {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "c-" + id, ContainerID: id})
		}
		err := row.cut.anew(p)
		if (err != nil) != row.stale {
			t.Errorf("%s: %v", row.why, err)
		}
		if err != nil && !strings.Contains(err.Error(), "c-a") {
			t.Errorf("%s: %v does not name the container", row.why, err)
		}
	}
}
