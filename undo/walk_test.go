package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/clusters"
)

const walker = "run-1"

// crash is what a process that dies panics with in these tests.
type crash struct{}

// world is a cluster that outlives the processes working on it. Left counts down at each thing that a
// process does to the world; at 0 it dies, before or after the thing took effect.
type world struct {
	clusters.Cluster
	client *fake.Clientset
	nodes  map[string]clusters.NodeState
	cut    map[string]bool
	rules  map[string]bool // of the network, made by commands

	left  int  // -1: nobody dies
	after bool // die after the effect instead of before it
}

func newWorld() *world {
	var objects []runtime.Object
	w := &world{left: -1, nodes: map[string]clusters.NodeState{}, cut: map[string]bool{}, rules: map[string]bool{}}
	for _, name := range []string{"node1", "node2", "node3"} {
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		w.nodes[name] = clusters.NodeRunning
	}
	three := int32(3)
	objects = append(objects, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: "teleport", UID: "uid-proxy"},
		Spec:       appsv1.DeploymentSpec{Replicas: &three}, Status: appsv1.DeploymentStatus{Replicas: 3, ReadyReplicas: 3},
	})
	w.client = fake.NewSimpleClientset(objects...) //nolint:staticcheck // NewClientset takes 50 times as long
	do := clienttesting.ObjectReaction(w.client.Tracker())
	w.client.PrependReactor("*", "*", func(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
		w.step(func() { handled, ret, err = do(action) })
		return handled, ret, err
	})
	return w
}

// step does one thing, or dies.
func (w *world) step(do func()) {
	if w.left == 0 && !w.after {
		panic(crash{})
	}
	do()
	if w.left == 0 {
		panic(crash{})
	}
	if w.left > 0 {
		w.left--
	}
}

func (w *world) Facts(context.Context) (clusters.Facts, error) {
	var f clusters.Facts
	for name, state := range w.nodes {
		f.Nodes = append(f.Nodes, clusters.Node{Name: name, State: state})
	}
	return f, nil
}

func (w *world) Available(clusters.NodeAction) error { return nil }
func (w *world) set(name string, s clusters.NodeState) error {
	w.step(func() { w.nodes[name] = s })
	return nil
}
func (w *world) Kill(_ context.Context, n string) error   { return w.set(n, clusters.NodeKilled) }
func (w *world) Pause(_ context.Context, n string) error  { return w.set(n, clusters.NodePaused) }
func (w *world) Resume(_ context.Context, n string) error { return w.set(n, clusters.NodeRunning) }
func (w *world) Restart(_ context.Context, n string) error {
	return w.set(n, clusters.NodeRunning)
}
func (w *world) Partition(_ context.Context, n string, _ ...string) error {
	w.step(func() { w.cut[n] = true })
	return nil
}
func (w *world) Heal(_ context.Context, n string) error {
	w.step(func() { delete(w.cut, n) })
	return nil
}

// Spawn knows: add RULE, drop RULE, gone RULE.
func (w *world) Spawn(_ context.Context, cmd clusters.Command) (exit int, err error) {
	w.step(func() {
		switch cmd.Argv[0] {
		case "add":
			w.rules[cmd.Argv[1]] = true
		case "drop":
			delete(w.rules, cmd.Argv[1])
		case "gone":
			if w.rules[cmd.Argv[1]] {
				exit = 1
			}
		}
	})
	return exit, nil
}

// state is everything that a run could leave behind.
func (w *world) state(t *testing.T) map[string]any {
	t.Helper()
	left := w.left
	w.left = -1
	defer func() { w.left = left }()
	ctx := t.Context()
	out := map[string]any{"states": fmt.Sprint(w.nodes), "cut": fmt.Sprint(w.cut), "rules": fmt.Sprint(w.rules)}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	check(t, err)
	for _, n := range nodes.Items {
		out["node "+n.Name] = fmt.Sprint(n.Spec.Unschedulable, n.Spec.Taints, len(n.Annotations), len(n.Labels))
	}
	policies, err := w.client.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	check(t, err)
	out["policies"] = len(policies.Items)
	maps, err := w.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	check(t, err)
	out["maps"] = len(maps.Items)
	d, err := w.client.AppsV1().Deployments("teleport").Get(ctx, "proxy", metav1.GetOptions{})
	check(t, err)
	out["deployment"] = fmt.Sprint(d.Spec.Paused, len(d.Annotations))
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dyingFile is a file of a process that may die in the middle of a line.
type dyingFile struct {
	*os.File
	w *world
}

func (f dyingFile) Write(p []byte) (n int, err error) {
	if f.w.left == 0 {
		_, _ = f.File.Write(p[:len(p)/2])
		panic(crash{})
	}
	f.w.step(func() { n, err = f.File.Write(p) })
	return n, err
}

// Sync waits for no disk: a process that dies loses nothing that it wrote.
func (f dyingFile) Sync() error { return nil }

// changes is a run that changes one thing of each kind.
func (w *world) changes(ctx context.Context, l *Log) error {
	nodes, policies := w.client.CoreV1().Nodes(), w.client.NetworkingV1().NetworkPolicies("teleport")
	patch := func(node string, with any) func(context.Context) error {
		return func(ctx context.Context) error {
			data, err := json.Marshal(with)
			if err != nil {
				return err
			}
			_, err = nodes.Patch(ctx, node, types.MergePatchType, data, metav1.PatchOptions{})
			return err
		}
	}
	node := func(name string) Object { return Object{Resource: "v1/nodes", Name: name, UID: "uid-" + name} }
	taint := corev1.Taint{Key: "shakedown.dev/taint", Value: walker, Effect: corev1.TaintEffectNoExecute}
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	proxy := Object{Resource: "apps/v1/deployments", Namespace: "teleport", Name: "proxy", UID: "uid-proxy"}
	for _, row := range []struct {
		change Change
		do     func(context.Context) error
	}{
		{Change{Kind: NodeCordoned, Object: node("node1")}, patch("node1", Cordon(walker, true))},
		{Change{Kind: NodeTainted, Object: node("node2"), Prior: asJSON(taint)},
			patch("node2", map[string]any{"spec": map[string]any{"taints": []corev1.Taint{theirs, taint}}})},
		{Change{Kind: ObjectCreated, Object: Object{Resource: "networking.k8s.io/v1/networkpolicies", Namespace: "teleport", Name: "cut"}},
			func(ctx context.Context) error {
				p := &netv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cut", UID: "uid-cut", Labels: map[string]string{RunLabel: walker}}}
				_, err := policies.Create(ctx, p, metav1.CreateOptions{})
				return err
			}},
		{Change{Kind: PodsRemoved, Object: proxy}, func(context.Context) error { return nil }},
		{Change{Kind: ObjectChanged, Object: proxy, Prior: asJSON(Patched{types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"shakedown.dev/run":null}},"spec":{"paused":null}}`)})},
			func(ctx context.Context) error {
				data := []byte(`{"metadata":{"annotations":{"shakedown.dev/run":"` + walker + `"}},"spec":{"paused":true}}`)
				_, err := w.client.AppsV1().Deployments("teleport").Patch(ctx, "proxy", types.MergePatchType, data, metav1.PatchOptions{})
				return err
			}},
		{Change{Kind: NodeKilled, Object: node("node1")}, func(ctx context.Context) error { return w.Kill(ctx, "node1") }},
		{Change{Kind: NodePaused, Object: node("node2")}, func(ctx context.Context) error { return w.Pause(ctx, "node2") }},
		{Change{Kind: NodePartitioned, Object: node("node3")}, func(ctx context.Context) error { return w.Partition(ctx, "node3") }},
		{Change{Kind: CommandRun, Prior: asJSON(Command{Undo: []string{"drop", "x"}, Check: []string{"gone", "x"}})},
			func(ctx context.Context) error {
				_, err := w.Spawn(ctx, clusters.Command{Argv: []string{"add", "x"}})
				return err
			}},
	} {
		row.change.What = string(row.change.Kind)
		if _, err := l.Do(ctx, row.change, row.do); err != nil {
			return err
		}
	}
	return nil
}

func asJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// dies runs a process that may die, and says whether it did.
func dies(process func()) (died bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(crash); !is {
				panic(r)
			}
			died = true
		}
	}()
	process()
	return false
}

// TestWalk lets a run die at each thing it does, then the heal after it at each thing that one does, and
// heals once more. From either copy of the intents, nothing is left behind.
func TestWalk(t *testing.T) {
	deaths, path := 0, filepath.Join(t.TempDir(), FileName)
	for _, source := range []string{"folder", "cluster"} {
		for _, after := range []bool{false, true} {
			for run := 0; ; run++ {
				runDied := false
				// Each run's heal dies at every fourth thing only, each at others, or this takes too long.
				for heal := run % 4; ; heal += 4 {
					var healDied bool
					runDied, healDied = walk(t, path, source, after, run, heal)
					if healDied {
						deaths++
						continue
					}
					break
				}
				if !runDied {
					break
				}
			}
		}
	}
	if deaths < 500 {
		t.Errorf("only %d deaths of a heal: the walk does not walk", deaths)
	}
	t.Logf("%d deaths", deaths)
}

func walk(t *testing.T, path, source string, after bool, run, heal int) (runDied, healDied bool) {
	t.Helper()
	w := newWorld()
	before := w.state(t)
	_ = os.Remove(path)
	mirror := ConfigMaps{w.client, "teleport"}
	l, err := Create(path, Head{Run: walker, Namespace: "teleport"}, mirror)
	check(t, err)
	osFile := l.file.(*os.File)
	l.file = dyingFile{osFile, w}

	w.left, w.after = run, after
	runDied = dies(func() { check(t, w.changes(t.Context(), l)) })
	osFile.Close() // as the kernel does, with the lock

	if !runDied && cmp.Equal(before, w.state(t)) {
		t.Fatal("the run changed nothing")
	}
	w.left = heal
	healDied = dies(func() { healFrom(t, w, source, path) })
	w.left = -1
	if healDied {
		healFrom(t, w, source, path)
	}
	if diff := cmp.Diff(before, w.state(t)); diff != "" {
		t.Fatalf("from %s, run died at %d (after %t), heal at %d: left behind:\n%s", source, run, after, heal, diff)
	}
	return runDied, healDied
}

func healFrom(t *testing.T, w *world, source, path string) {
	t.Helper()
	var l *Log
	var err error
	if source == "folder" {
		l, err = Open(path, ConfigMaps{w.client, "teleport"})
	} else {
		l, err = FromCluster(t.Context(), w.client, walker)
	}
	check(t, err)
	defer l.Close()
	if f, is := l.file.(*os.File); is {
		l.file = dyingFile{f, w}
	}
	results, err := Heal(t.Context(), l, Cluster{Client: w.client, Cluster: w})
	check(t, err)
	for _, r := range results {
		check(t, r.Err)
	}
	if len(l.Pending()) > 0 {
		t.Errorf("still pending: %+v", l.Pending())
	}
}
