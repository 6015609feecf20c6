package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"shakedown.dev/shakedown/history"
)

// TestLivesOfPods has one row for each way a pod can go: the states of its object, and what is recorded.
func TestLivesOfPods(t *testing.T) {
	const gone = "gone" // the object is removed
	for _, row := range []struct {
		why  string
		life []any // *corev1.Pod, or gone
		want []string
	}{
		{
			why:  "a pod comes up",
			life: []any{pod("p", "proxy", "a"), pod("p", "proxy", "a", on("n1")), pod("p", "proxy", "a", up(false)), pod("p", "proxy", "a", up(true))},
			want: []string{"pod p created", "pod p created scheduled", "pod p ready"},
		},
		{
			why:  "a pod that has a place at first sight is not told of twice",
			life: []any{pod("p", "proxy", "a", up(true))},
			want: []string{"pod p created", "pod p ready"},
		},
		{
			why:  "a pod fails its readiness probe for a while",
			life: []any{pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", up(false)), pod("p", "proxy", "a", up(true))},
			want: []string{"pod p created", "pod p ready", "pod p unready ContainersNotReady", "pod p ready"},
		},
		{
			why: "a pod is deleted, and stops in time",
			life: []any{
				pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", up(true), ending(30)),
				pod("p", "proxy", "a", up(false), ending(30), ended(0, "Completed", false)), gone,
			},
			want: []string{
				"container p/teleport exit 0 signal 0 Completed init=false restarts=0",
				"pod p created", "pod p ready", "pod p deleting grace 30s", "pod p unready ContainersNotReady", "pod p gone",
			},
		},
		{
			why:  "a pod is deleted with grace 0: the API server shows its end and nothing before",
			life: []any{pod("p", "proxy", "a", up(true)), gone},
			want: []string{"pod p created", "pod p ready", "pod p deleting grace 0s Removed removed at once, without a grace period", "pod p gone"},
		},
		{
			why:  "a job's pod is removed after it is done: nobody ended it",
			life: []any{pod("p", "auth-test", "", phase(corev1.PodSucceeded, ""), ended(0, "Completed", false)), gone},
			want: []string{"container p/teleport exit 0 signal 0 Completed init=false restarts=0", "pod p created", "pod p succeeded", "pod p gone"},
		},
		{
			why:  "a pod is evicted through the API",
			life: []any{pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", up(true), disrupted("EvictionByEvictionAPI"), ending(10)), gone},
			want: []string{"pod p created", "pod p ready", "pod p evicted EvictionByEvictionAPI said so", "pod p deleting grace 10s EvictionByEvictionAPI", "pod p gone"},
		},
		{
			why:  "a kubelet short of memory evicts a pod",
			life: []any{pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", phase(corev1.PodFailed, "Evicted"))},
			want: []string{"pod p created", "pod p ready", "pod p unready", "pod p evicted Evicted", "pod p failed Evicted"},
		},
		{
			why:  "a pod whose node is gone is collected, which is no eviction",
			life: []any{pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", up(true), disrupted("DeletionByPodGC"), ending(0)), gone},
			want: []string{"pod p created", "pod p ready", "pod p deleting grace 0s DeletionByPodGC", "pod p gone"},
		},
		{
			why: "a container is killed and started again: one end, told once",
			life: []any{
				pod("p", "proxy", "a", up(true)), pod("p", "proxy", "a", up(false), ended(137, "OOMKilled", false)),
				pod("p", "proxy", "a", up(false), ended(137, "OOMKilled", true)), pod("p", "proxy", "a", up(true), ended(137, "OOMKilled", true)),
			},
			want: []string{
				"container p/teleport exit 137 signal 9 OOMKilled init=false restarts=0",
				"pod p created", "pod p ready", "pod p unready ContainersNotReady", "pod p ready",
			},
		},
		{
			why: "an image cannot be had, and then it can",
			life: []any{
				pod("p", "proxy", "a", on("n1"), waiting("ContainerCreating")), pod("p", "proxy", "a", on("n1"), waiting("ErrImagePull")),
				pod("p", "proxy", "a", on("n1"), waiting("ErrImagePull")), pod("p", "proxy", "a", up(true)),
			},
			want: []string{"pod p created", "pod p stuck ErrImagePull container teleport: as it says", "pod p ready"},
		},
	} {
		t.Run(row.why, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				for _, step := range row.life {
					if p, ok := step.(*corev1.Pod); ok {
						r.put(p.DeepCopy())
					} else {
						r.deletePod("p")
					}
				}
				r.expect(row.why, row.want...)
			})
		})
	}
}

func TestWhatAPodEventSays(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.put(pod("p", "proxy", "abc", up(true)))
		want := history.PodChange{
			Pod:   history.PodRef{Name: "p", UID: "uid-p", Component: "proxy", Node: "n1", Revision: "abc"},
			State: history.PodReady, Version: "1.0.0", IP: "10.0.0.1",
		}
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		for _, e := range r.sink.all {
			if e.Data.(history.Payload).Kind() != history.KindPod || e.Data.(history.PodChange).State != history.PodReady {
				continue
			}
			if diff := cmp.Diff(want, e.Data); diff != "" || e.Subject != "p" {
				t.Error(e.Subject, diff)
			}
			return
		}
		t.Error("no pod became ready")
	})
}

// TestPodsThatWereThere: what ended before the watch began is no news, what is there is.
func TestPodsThatWereThere(t *testing.T) {
	there := []runtime.Object{pod("p", "proxy", "a", up(true), ended(1, "Error", true))}
	inBubble(t, there, func(r *rig) {
		r.expect("at first sight", "pod p created", "pod p ready")
		if _, ok := r.state.Pod("uid-p"); !ok {
			t.Error("Start came back before everything was seen")
		}
	})
}

func TestVersionOfImages(t *testing.T) {
	for image, want := range map[string]string{
		"teleport:13.0.0": "13.0.0", "registry:5000/teleport": "", "registry:5000/teleport:1": "1", "teleport@sha256:abc": "", "teleport:2@sha256:abc": "2",
	} {
		p := pod("p", "proxy", "a")
		p.Spec.Containers[0].Image = image
		if got := version(p, sight(p).pod); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}
