package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// forbidden is a cluster in which one resource may not be listed.
func forbidden(resource string) *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("this user may not list them")
	})
	return c
}

func contains(s string, all ...string) bool {
	for _, part := range all {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

func (r *rig) record(data history.Payload) {
	r.t.Helper()
	r.state.Record(history.Event{Data: data})
}

func (r *rig) rollout(component string) gates.RolloutView {
	r.t.Helper()
	v, err := r.state.Rollout(component)
	r.must(err)
	return v
}

// threeProxies is a component as it is before anything is done to it.
func threeProxies() []runtime.Object {
	return []runtime.Object{
		deployment("proxy", 3, settled(3)), revision("proxy", 1, "old"),
		pod("a", "proxy", "old", up(true)), pod("b", "proxy", "old", up(true)), pod("c", "proxy", "old", up(true)),
	}
}

// TestARollout walks a component through a rollout, with a pod killed on the way.
func TestARollout(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		r.expect("before", "pod a created", "pod a ready", "pod b created", "pod b ready", "pod c created", "pod c ready",
			"replicas proxy 3/3 updated 3 available 3 total 3 of old")
		r.must(r.state.Settled())
		if v := r.rollout("proxy"); v != (gates.RolloutView{}) {
			t.Errorf("a system that nobody changed: %+v", v)
		}
		time.Sleep(time.Second)
		start := history.Rollout{ID: "r1", Entry: "rollout", Verb: "upgrade", Stage: history.RolloutStart, From: "1", To: "2"}
		r.record(start)
		r.expect("nothing has moved yet")

		next := deployment("proxy", 3, settled(3))
		next.Generation = 2
		r.put(next)
		if err := r.state.Settled("proxy"); err == nil || !contains(err.Error(), "has not seen the change") {
			t.Errorf("settled before the controller looked: %v", err)
		}
		r.put(revision("proxy", 2, "new"))
		r.expect("the controller wants another revision",
			"replicas proxy 3/3 updated 3 available 3 total 3 of new", "rollout r1 proxy updated 0 ready 0 old 3 total 3 to new")

		r.put(pod("d", "proxy", "new"))
		r.expect("the first new pod", "pod d created", "rollout r1 proxy updated 1 ready 0 old 3 total 4 to new")
		r.put(pod("d", "proxy", "new", up(true)))
		r.put(pod("a", "proxy", "old", up(true), ending(10)))
		r.put(pod("e", "proxy", "new", up(true)))
		r.expect("it serves, an old one goes, the next comes",
			"pod a deleting grace 10s", "pod d created scheduled", "pod d ready", "pod e created", "pod e ready",
			"rollout r1 proxy updated 1 ready 1 old 3 total 4 to new", "rollout r1 proxy updated 2 ready 2 old 3 total 5 to new")
		want := gates.RolloutView{Started: true, Updated: 2. / 3, Ready: 2. / 3, Old: 3}
		if diff := cmp.Diff(want, r.rollout("proxy")); diff != "" {
			t.Error(diff)
		}
		got, err := r.state.Pods(map[string]string{"component": "proxy", "revision": "old"})
		if diff := cmp.Diff(gates.PodsView{Total: 3, Ready: 2, Terminating: 1}, got); diff != "" || err != nil {
			t.Error(err, diff)
		}

		for _, name := range []string{"a", "b", "c"} {
			r.deletePod(name)
		}
		r.put(pod("f", "proxy", "new", up(true)))
		r.sink.news()
		s := settled(3)
		s.ObservedGeneration, s.ReadyReplicas = 2, 2
		late := deployment("proxy", 3, s)
		late.Generation = 2
		r.put(late)
		if v := r.rollout("proxy"); v.Done || v.Updated != 1 || v.Old != 0 {
			t.Errorf("done before its controller says so: %+v", v)
		}
		s.ReadyReplicas = 3
		done := deployment("proxy", 3, s)
		done.Generation = 2
		r.put(done)
		r.must(r.state.Settled("proxy"))
		if v := r.rollout("proxy"); !v.Done || v.Updated != 1 || v.Ready != 1 {
			t.Errorf("%+v", v)
		}
		start.Stage = history.RolloutEnd
		r.record(start)
		r.sink.news()
		r.put(pod("f", "proxy", "new", up(false)))
		r.expect("after the end no progress is told", "pod f unready ContainersNotReady")
	})
}

// TestTheNextRolloutCountsAgain: a second rollout counts against what the first led to, from its entry's start on.
func TestTheNextRolloutCountsAgain(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		r.put(revision("proxy", 2, "new"))
		r.put(pod("d", "proxy", "new", up(true)))
		if v := r.rollout("proxy"); !v.Started || v.Updated < 0.3 {
			t.Errorf("the first: %+v", v)
		}
		time.Sleep(time.Second)
		r.record(history.Entry{Name: "again", State: history.EntryStarted, Action: "helmUpgrade"})
		if v := r.rollout("proxy"); v.Started {
			t.Errorf("the second has not begun: %+v", v)
		}
	})
}

// TestARolloutThatWasFasterThanItsEvent: the watch told of the new revision before the rollout's own event came through.
func TestARolloutThatWasFasterThanItsEvent(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		time.Sleep(time.Second)
		before := r.state.Now()
		time.Sleep(time.Second)
		r.put(revision("proxy", 2, "new"))
		r.state.Record(history.Event{At: before, Data: history.Rollout{ID: "r", Verb: "upgrade", Stage: history.RolloutStart}})
		if v := r.rollout("proxy"); !v.Started {
			t.Errorf("%+v", v)
		}
	})
}

// TestAComponentOfTwoWorkloads: one is rolled out, and only it counts; the other's pods are not old.
func TestAComponentOfTwoWorkloads(t *testing.T) {
	fleet, control := deployment("agent", 2, settled(2)), deployment("agent", 1, settled(1))
	control.Name, control.UID = "control", "uid-control"
	other := revision("agent", 1, "c")
	other.Name, other.UID, other.OwnerReferences[0].UID = "control-c", "uid-control-c", "uid-control"
	there := []runtime.Object{
		fleet, control, revision("agent", 1, "old"), other,
		pod("a", "agent", "old", up(true)), pod("b", "agent", "old", up(true)), pod("c", "agent", "c", up(true)),
	}
	inBubble(t, there, func(r *rig) {
		r.must(r.state.Settled("agent"))
		r.put(revision("agent", 2, "new"))
		r.put(pod("d", "agent", "new", up(true)))
		want := gates.RolloutView{Started: true, Updated: 0.5, Ready: 0.5, Old: 2}
		if diff := cmp.Diff(want, r.rollout("agent")); diff != "" {
			t.Error(diff)
		}
		got, err := r.state.Pods(map[string]string{"component": "agent", "revision": "old"})
		if err != nil || got.Total != 2 {
			t.Errorf("%d old pods: %v", got.Total, err)
		}
	})
}

func TestStatefulSets(t *testing.T) {
	n := int32(1)
	etcd := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "etcd", Namespace: namespace, UID: "uid-etcd"}}
	etcd.Spec.Template.Labels, etcd.Spec.Replicas = labels("etcd"), &n
	etcd.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, UpdateRevision: "etcd-1"}
	p := pod("etcd-0", "etcd", "", up(true))
	delete(p.Labels, hashLabel)
	p.Labels["controller-revision-hash"] = "etcd-1"
	inBubble(t, []runtime.Object{etcd, p}, func(r *rig) {
		r.expect("a component by its template's labels", "pod etcd-0 created", "pod etcd-0 ready", "replicas etcd 1/1 updated 1 available 1 total 1 of etcd-1")
		r.must(r.state.Settled("etcd"))
		r.put(pod("etcd-0", "etcd", "", up(true), ending(5)))
		if err := r.state.Settled("etcd"); err == nil || !contains(err.Error(), "still there: etcd-0") {
			t.Error(err)
		}
		if err := r.state.Settled("proxy"); err == nil || !contains(err.Error(), "proxy has no workload") {
			t.Error(err)
		}
		if diff := cmp.Diff(map[string]int{"etcd": 1}, r.state.Desired()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPods(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		r.put(pod("d", "proxy", "old"))
		r.put(pod("e", "auth", "x", up(true)))
		if got := names(refs(r.state)); got != "a,b,c" {
			t.Errorf("proxies that can be dialled: %s", got)
		}
		if got := len(r.state.List("")); got != 5 {
			t.Errorf("%d pods in all", got)
		}
		r.state.List("proxy")[0].Name = "changed by a caller"
		if got := r.state.List("proxy")[0].Name; got != "a" {
			t.Errorf("callers share a list: %s", got)
		}
		r.record(history.Probe{Pod: history.PodRef{UID: "uid-a", Component: "proxy"}, Took: time.Millisecond})
		r.record(history.Probe{Pod: history.PodRef{UID: "uid-b", Component: "proxy"}, Error: "refused"})
		got, err := r.state.Pods(map[string]string{"component": "proxy", "node": "n1"})
		if diff := cmp.Diff(gates.PodsView{Total: 3, Ready: 3, Serving: 1}, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		time.Sleep(3 * time.Second)
		if got, _ := r.state.Pods(map[string]string{"name": "a"}); got.Serving != 0 {
			t.Error("a pod serves although nobody has probed it for long")
		}
		if _, err := r.state.Pods(map[string]string{"colour": "red"}); err == nil || !contains(err.Error(), `"colour"`, "component, name, node, revision, version") {
			t.Error(err)
		}
		if _, err := r.state.Rollout("nothing"); err == nil {
			t.Error("a component without a workload has a rollout")
		}
	})
}

func refs(s *State) (out []history.PodRef) {
	for _, p := range s.Proxies() {
		out = append(out, p.Ref())
	}
	return out
}

func TestSessions(t *testing.T) {
	s := NewState(&sink{start: time.Now()})
	if _, err := s.Sessions(); !errors.Is(err, errNoLoad) {
		t.Error("sessions are known before there are any")
	}
	for _, id := range []string{"1", "2", "3"} {
		s.Record(history.Event{Data: history.SessionOpened{ID: id}})
	}
	s.Record(history.Event{Data: history.Session{ID: "1", Class: history.Clean}})
	s.Record(history.Event{Data: history.Session{ID: "2", Class: history.Dropped}})
	s.Record(history.Event{Data: history.Session{ID: "9", Class: history.Refused}})
	got, err := s.Sessions()
	if diff := cmp.Diff(gates.SessionsView{Held: 1, Opened: 3, Clean: 1, Refused: 1, Dropped: 1}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// TestAPodThatIsGoneUnsettles: the controller still counts it for a moment.
func TestAPodThatIsGoneUnsettles(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		r.must(r.state.Settled())
		r.deletePod("a")
		if err := r.state.Settled(); err == nil || err.Error() != "proxy: 2 of 3 pods are ready" {
			t.Error(err)
		}
	})
}

func TestWell(t *testing.T) {
	inBubble(t, threeProxies(), func(r *rig) {
		r.must(r.state.Well())
		r.record(history.RunStart{Desired: map[string]int{"proxy": 3, "auth": 1}})
		if err := r.state.Well(); err == nil || err.Error() != "auth has no ready pod" {
			t.Error(err)
		}
		r.put(pod("e", "auth", "x", up(true)))
		r.must(r.state.Well())
		r.put(pod("e", "auth", "x", up(true), ending(5)))
		if err := r.state.Well(); err == nil {
			t.Error("a pod that ends is enough")
		}
	})
}
