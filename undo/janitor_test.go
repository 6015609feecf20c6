package undo

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// watched is a cluster in which a run has cordoned a node, with the run's janitor at work.
type watched struct {
	client *fake.Clientset
	away   bool // the API server is
	hold   *Hold
	done   chan error
	found  []Result
}

const janitorRun = "run-1"

func watch(t *testing.T, term time.Duration) *watched {
	t.Helper()
	w := &watched{done: make(chan error, 1)}
	w.client = fake.NewSimpleClientset( //nolint:staticcheck // NewClientset takes 50 times as long
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "uid-node1", Annotations: map[string]string{CordonMark: janitorRun}}, Spec: corev1.NodeSpec{Unschedulable: true}})
	w.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if w.away {
			return true, nil, context.DeadlineExceeded
		}
		return false, nil, nil
	})
	var err error
	if w.hold, err = Take(t.Context(), w.client, "teleport", janitorRun, term); err != nil {
		t.Fatal(err)
	}
	copies := ConfigMaps{Client: w.client, Namespace: "teleport"}
	for i, c := range []Change{
		{Kind: NodeCordoned, What: "cordon node1", Object: Object{Resource: "v1/nodes", Name: "node1", UID: "uid-node1"}},
		{Kind: NodeKilled, What: "kill node1", Object: Object{Resource: "v1/nodes", Name: "node1", UID: "uid-node1"}},
	} {
		if err := copies.Put(t.Context(), Entry{ID: i + 1, Run: janitorRun, State: Made, Change: c}); err != nil {
			t.Fatal(err)
		}
	}
	j := Janitor{Client: w.client, Namespace: "teleport", Run: janitorRun, TryFor: time.Second, Log: slog.New(slog.DiscardHandler)}
	go func() {
		var err error
		w.found, err = j.Do(t.Context())
		w.done <- err
	}()
	return w
}

// vanish is the runner's death: it renews no more, and gives nothing back.
func (w *watched) vanish() {
	w.hold.stop()
	<-w.hold.done
}

func (w *watched) cordoned(t *testing.T) bool {
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Spec.Unschedulable
}

func (w *watched) working() bool {
	synctest.Wait()
	return len(w.done) == 0
}

func TestJanitor(t *testing.T) {
	const term = 30 * time.Second
	for _, row := range []struct {
		why string
		do  func(t *testing.T, w *watched)
	}{
		{"while the runner lives nothing is touched, and its end ends the janitor", func(t *testing.T, w *watched) {
			time.Sleep(20 * term)
			if !w.working() || !w.cordoned(t) {
				t.Error("the janitor did something while the runner lived")
			}
			if err := w.hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-w.done; err != nil || len(w.found) > 0 || !w.cordoned(t) {
				t.Errorf("%v: %+v", err, w.found)
			}
		}},
		{"what a runner left that has vanished is undone after its term, and what takes the provider stays for heal", func(t *testing.T, w *watched) {
			time.Sleep(term)
			w.vanish()
			time.Sleep(term / 2)
			if !w.working() {
				t.Error("it did not wait for the term")
			}
			time.Sleep(term)
			if err := <-w.done; err != nil {
				t.Error(err)
			}
			if w.cordoned(t) || len(w.found) != 2 || len(Failed(w.found)) != 1 || !errors.Is(w.found[0].Err, ErrFinal) {
				t.Errorf("found %+v", w.found)
			}
			left, err := FromCluster(t.Context(), w.client, janitorRun)
			if err != nil || len(left.Pending()) != 1 || left.Pending()[0].Change.Kind != NodeKilled {
				t.Errorf("left to heal: %+v (%v)", left.Pending(), err)
			}
			_, err = w.client.CoordinationV1().Leases("teleport").Get(t.Context(), LeaseName(janitorRun), metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the lease stays: %v", err)
			}
		}},
		{"an API server that is away is not a runner that has vanished", func(t *testing.T, w *watched) {
			time.Sleep(term)
			w.away = true
			time.Sleep(10 * term)
			w.away = false
			time.Sleep(term / 2)
			if !w.working() || !w.cordoned(t) {
				t.Error("it undid what a living run needs")
			}
			_ = w.hold.Release(t.Context())
			<-w.done
		}},
		{"a runner that was taken for dead learns of it", func(t *testing.T, w *watched) {
			w.vanish()
			if err := <-w.done; err != nil {
				t.Error(err)
			}
			again := &Hold{client: w.client, ns: "teleport", name: LeaseName(janitorRun)}
			if again.renew(t.Context(), time.Second) {
				t.Error("it goes on")
			}
		}},
	} {
		t.Run(row.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { row.do(t, watch(t, term)) })
		})
	}
}

// TestEmployAndLeave: all that is made for a janitor goes again; to take it away twice is no error.
func TestEmployAndLeave(t *testing.T) {
	client := fake.NewSimpleClientset() //nolint:staticcheck // as above
	if err := Employ(t.Context(), client, "teleport", janitorRun, "image"); err != nil {
		t.Fatal(err)
	}
	jobs, err := client.BatchV1().Jobs(JanitorName(janitorRun)).List(t.Context(), metav1.ListOptions{LabelSelector: RunLabel + "=" + janitorRun})
	if err != nil || len(jobs.Items) != 1 || jobs.Items[0].Spec.Template.Spec.Containers[0].Image != "image" {
		t.Errorf("%+v (%v)", jobs, err)
	}
	for range 2 {
		if err := Leave(t.Context(), client, "teleport", janitorRun); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), JanitorName(janitorRun), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its namespace: %v", err)
	}
	// The garbage collector's part: what is in no namespace belongs to that one.
	roles, _ := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	bindings, _ := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	for _, owners := range [][]metav1.OwnerReference{roles.Items[0].OwnerReferences, bindings.Items[0].OwnerReferences} {
		if len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].Name != JanitorName(janitorRun) {
			t.Errorf("owned by %+v", owners)
		}
	}
}
