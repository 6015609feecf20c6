package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"shakedown.dev/shakedown/history"
)

// sink is a history in memory, on the clock of the test's bubble.
type sink struct {
	start time.Time
	mu    sync.Mutex
	all   []history.Event
	told  int // of all, those a test has looked at
}

func (s *sink) Now() time.Duration              { return time.Since(s.start) }
func (s *sink) Since(t time.Time) time.Duration { return t.Sub(s.start) }
func (s *sink) Record(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Kind = e.Data.Kind()
	s.all = append(s.all, e)
}

// news are the events since the last call, one line each, in an order that does not hang on which watch was faster.
func (s *sink) news() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.all[s.told:] {
		if line := say(e); line != "" {
			out = append(out, line)
		}
	}
	s.told = len(s.all)
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(firstTwo(a), firstTwo(b)) })
	return out
}

func firstTwo(line string) string {
	words := strings.SplitN(line, " ", 3)
	return strings.Join(words[:min(2, len(words))], " ")
}

func say(e history.Event) string {
	switch d := e.Data.(type) {
	case history.PodChange:
		out := fmt.Sprintf("pod %s %s", d.Pod.Name, d.State)
		if d.State == history.PodDeleting {
			out += fmt.Sprintf(" grace %s", d.Grace)
		}
		return strings.TrimSpace(out + " " + strings.TrimSpace(d.Reason+" "+d.Detail))
	case history.ContainerEnd:
		return fmt.Sprintf("container %s/%s exit %d signal %d %s init=%v restarts=%d", d.Pod.Name, d.Container, d.Exit, d.Signal, d.Reason, d.Init, d.Restarts)
	case history.NodeChange:
		return strings.TrimSpace(fmt.Sprintf("node %s %s %s", d.Node, d.State, d.Reason))
	case history.Endpoints:
		return fmt.Sprintf("endpoints %s (%s) ready=%s terminating=%s notReady=%s", d.Service, d.Component, names(d.Ready), names(d.Terminating), names(d.NotReady))
	case history.Replicas:
		return fmt.Sprintf("replicas %s %d/%d updated %d available %d total %d of %s", d.Component, d.Ready, d.Desired, d.Updated, d.Available, d.Total, d.Revision)
	case history.Rollout:
		if d.Stage != history.RolloutProgress {
			return ""
		}
		return fmt.Sprintf("rollout %s %s updated %d ready %d old %d total %d to %s", d.ID, d.Component, d.Updated, d.UpdatedReady, d.Old, d.Total, d.Hash)
	case history.Blind:
		return fmt.Sprintf("blind %s %s", d.What, d.Error)
	case history.APIServer:
		return strings.TrimSpace(fmt.Sprintf("apiserver up=%v %s", d.Up, d.Error))
	}
	return ""
}

func names(refs []history.PodRef) string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Name)
	}
	return strings.Join(out, ",")
}

// rig is a watcher over a fake cluster.
type rig struct {
	t      *testing.T
	client *fake.Clientset
	sink   *sink
	state  *State
	w      *Watcher
	apiErr error
	mu     sync.Mutex
}

const namespace = "teleport"

var ctx = context.Background()

// inBubble runs a test over a fake cluster with these objects in it.
func inBubble(t *testing.T, objects []runtime.Object, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, client: fake.NewClientset(objects...), sink: &sink{start: time.Now()}}
		r.state = NewState(r.sink)
		w, err := Start(t.Context(), Config{Client: r.client, Namespace: namespace, State: r.state, Ready: r.ready})
		if err != nil {
			t.Fatal(err)
		}
		r.w = w
		defer w.Stop()
		synctest.Wait() // the fake cluster forgets what happens between a list and its watch
		f(r)
	})
}

func (r *rig) ready(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apiErr
}

func (r *rig) api(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apiErr = err
}

// expect compares what was recorded since the last call.
func (r *rig) expect(why string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.sink.news()); diff != "" {
		r.t.Errorf("%s: %s", why, diff)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// put creates or updates an object.
func (r *rig) put(o runtime.Object) {
	r.t.Helper()
	var err error
	switch o := o.(type) {
	case *corev1.Pod:
		_, err = r.client.CoreV1().Pods(namespace).Update(ctx, o, metav1.UpdateOptions{})
		if err != nil {
			_, err = r.client.CoreV1().Pods(namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	case *corev1.Node:
		_, err = r.client.CoreV1().Nodes().Update(ctx, o, metav1.UpdateOptions{})
	case *appsv1.Deployment:
		_, err = r.client.AppsV1().Deployments(namespace).Update(ctx, o, metav1.UpdateOptions{})
	case *appsv1.StatefulSet:
		_, err = r.client.AppsV1().StatefulSets(namespace).Update(ctx, o, metav1.UpdateOptions{})
	case *appsv1.ReplicaSet:
		_, err = r.client.AppsV1().ReplicaSets(namespace).Create(ctx, o, metav1.CreateOptions{})
	case *discoveryv1.EndpointSlice:
		_, err = r.client.DiscoveryV1().EndpointSlices(namespace).Update(ctx, o, metav1.UpdateOptions{})
	default:
		err = errors.New("the rig does not know how")
	}
	r.must(err)
	synctest.Wait()
}

func (r *rig) deletePod(name string) {
	r.t.Helper()
	r.must(r.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	synctest.Wait()
}

func labels(component string) map[string]string {
	return map[string]string{"app.kubernetes.io/instance": "teleport", componentLabel: component}
}

// change is something done to an object before it is put.
type change func(*corev1.Pod)

func pod(name, component, hash string, changes ...change) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name), Labels: labels(component)}}
	p.Labels[hashLabel] = hash
	p.Spec.Containers = []corev1.Container{{Name: "teleport", Image: "registry:5000/teleport:1.0.0"}}
	p.Status.Phase = corev1.PodPending
	for _, c := range changes {
		c(p)
	}
	return p
}

func on(node string) change { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// up makes a pod run, ready or not.
func up(ready bool) change {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.PodIP = "n1", corev1.PodRunning, "10.0.0.1"
		status, reason := corev1.ConditionFalse, "ContainersNotReady"
		if ready {
			status, reason = corev1.ConditionTrue, ""
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, Reason: reason})
	}
}

func ending(grace int64) change {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(9, 0)}, &grace
	}
}

func disrupted(reason string) change {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "said so",
		})
	}
}

func phase(ph corev1.PodPhase, reason string) change {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = ph, reason }
}

// ended makes the container's last run end; of a pod that goes on it was restarted.
func ended(exit int32, reason string, again bool) change {
	return func(p *corev1.Pod) {
		t := &corev1.ContainerStateTerminated{ExitCode: exit, Reason: reason, ContainerID: "c1", FinishedAt: metav1.Unix(100, 0)}
		s := corev1.ContainerStatus{Name: "teleport"}
		if again {
			s.LastTerminationState.Terminated, s.RestartCount = t, 1
		} else {
			s.State.Terminated = t
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
	}
}

func waiting(reason string) change {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "teleport", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "as it says"}},
		}}
	}
}

func deployment(component string, desired int32, s appsv1.DeploymentStatus) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "teleport-" + component, Namespace: namespace, UID: types.UID("uid-" + component), Labels: labels(component),
	}}
	d.Spec.Replicas, d.Status = &desired, s
	return d
}

// settled is the status of a Deployment that is as it should be.
func settled(n int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, AvailableReplicas: n}
}

func revision(component string, count int, hash string) *appsv1.ReplicaSet {
	yes := true
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: component + "-" + hash, Namespace: namespace, UID: types.UID("uid-" + component + hash),
		Labels: map[string]string{hashLabel: hash}, Annotations: map[string]string{countAnnotation: fmt.Sprint(count)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "teleport-" + component, UID: types.UID("uid-" + component), Controller: &yes}},
	}}
}
