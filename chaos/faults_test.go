package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// inSim runs a test beside a simulated cluster whose controllers work.
func inSim(t *testing.T, test func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault)) {
	t.Helper()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := newSim(1)
		go s.run(ctx, 500*time.Millisecond)
		time.Sleep(10*time.Second + 100*time.Millisecond) // between two ticks
		w := &walker{t: t, sim: s, folder: folder}
		k, _ := w.keeper(1)
		test(t, s, k, func() []history.Fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.events)
		})
		mustNot(t, k.Undo.Close())
	})
}

func fault(action string, args scenarios.Args, selects ...scenarios.Selection) scenarios.Step {
	word, _ := scenarios.Words().Find(action)
	do := &scenarios.Do{Action: action, Args: args, Selects: map[string]*scenarios.Selection{}}
	for i, name := range []string{"select", "from"} {
		if i < len(selects) {
			do.Selects[name] = &selects[i]
		}
	}
	return scenarios.Step{ID: "x", Name: "x", Fault: true, Lasting: word.Lasting, Do: do}
}

var (
	oneProxy = scenarios.Selection{Component: "proxy", Count: 1, Seed: 1}
	oneNode  = scenarios.Selection{Node: &scenarios.NodeSelection{Running: "agent"}, Count: 1, Seed: 1}
)

// TestEachFault: each bites and heals, with proofs that speak of what was hit.
func TestEachFault(t *testing.T) {
	for _, row := range []struct {
		step        scenarios.Step
		bit, healed string
	}{
		{fault("podDelete", scenarios.Args{"gracePeriod": "0s"}, oneProxy), "left the ready endpoints and is gone", "Deployment proxy has 3 of 3 ready"},
		{fault("podDelete", nil, scenarios.Selection{Component: "auth", All: true}), "is gone", "Deployment auth has 2 of 2 ready"},
		{fault("podDelete", scenarios.Args{"every": "2s"}, scenarios.Selection{Component: "proxy", Share: 0.5}), "left the ready endpoints", "Deployment proxy has 3 of 3 ready"},
		{fault("podEvict", nil, oneProxy), "left the ready endpoints", "Deployment proxy has 3 of 3 ready"},
		{fault("containerSignal", scenarios.Args{"signal": "KILL"}, oneProxy), "ended with exit status 137", "Deployment proxy has 3 of 3 ready"},
		{fault("containerPause", nil, oneProxy), "all of its processes are stopped", "no process is stopped"},
		{fault("nodeDrain", scenarios.Args{"timeout": "60s"}, oneNode), "tainted as unschedulable", "schedulable"},
		{fault("nodeCordon", nil, oneNode), "tainted as unschedulable", "without the taint"},
		{fault("nodeTaint", scenarios.Args{"key": "shakedown.dev/taint", "effect": "NoExecute"}, oneNode), "the scheduler refuses a pod", "Ready"},
		{fault("nodeKill", nil, oneNode), "not Ready", "Ready"},
		{fault("nodePause", nil, oneNode), "not Ready", "Ready"},
		{fault("nodePartition", nil, oneNode), "not Ready", "Ready"},
		{fault("nodeRestart", scenarios.Args{"down": "5s"}, oneNode), "the kubelet of", "Ready"},
		{fault("nodePoolUpdate", scenarios.Args{"timeout": "60s"}, oneNode), "the kubelet of", "Ready"},
		{fault("partition", scenarios.Args{"direction": "both"}, oneProxy, scenarios.Selection{Component: "auth", All: true}), "dropped on node", "no rules on node"},
		{fault("packetLoss", scenarios.Args{"share": 0.1}, oneProxy), "dropped on node", "no rules on node"},
		{fault("bandwidth", scenarios.Args{"rate": 1000.0}, oneProxy), "dropped on node", "no rules on node"},
		{fault("connectionReset", scenarios.Args{"share": 0.5}, oneProxy), "2 connections of pod proxy", "Deployment proxy has 3 of 3 ready"},
		{fault("reconnectStorm", scenarios.Args{"who": "agents"}), "3 connections of pod agent", "Deployment agent has 2 of 2 ready"},
		{fault("apiServerOutage", nil), "deadline exceeded", "the API server answers"},
		{fault("rolloutStuck", scenarios.Args{"component": "proxy", "how": "image"}), "ErrImagePull", "Deployment proxy has 3 of 3 ready"},
		{fault("rolloutStuck", scenarios.Args{"component": "proxy", "how": "init"}), "ErrImagePull", "Deployment proxy has 3 of 3 ready"},
		{fault("rolloutStuck", scenarios.Args{"component": "proxy", "how": "antiAffinity"}), "Unschedulable", "Deployment proxy has 3 of 3 ready"},
		{fault("rolloutStuck", scenarios.Args{"component": "proxy", "how": "quota"}), "exceeded quota", "Deployment proxy has 3 of 3 ready"},
	} {
		t.Run(fmt.Sprint(row.step.Do.Action, row.step.Do.Args), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
				held, err := k.Inject(t.Context(), row.step, 0)
				mustNot(t, err)
				if row.step.Lasting {
					mustNot(t, k.Heal(t.Context(), "x"))
				}
				<-held.Done()
				mustNot(t, held.Err())
				var stages []history.FaultStage
				for _, e := range events() {
					stages = append(stages, e.Stage)
					want := map[history.FaultStage]string{history.FaultBit: row.bit, history.FaultHealed: row.healed}[e.Stage]
					if !strings.Contains(e.Proof, want) {
						t.Errorf("%s by %q, want %q", e.Stage, e.Proof, want)
					}
					if len(e.Targets) == 0 {
						t.Errorf("%s has no targets", e.Stage)
					}
				}
				if want := []history.FaultStage{history.FaultInject, history.FaultBit, history.FaultHeal, history.FaultHealed}; !slices.Equal(stages, want) {
					t.Errorf("stages %v, want %v", stages, want)
				}
				if pending := k.Undo.Pending(); len(pending) > 0 {
					t.Errorf("pending: %+v", pending)
				}
			})
		})
	}
}

// TestWhatDoesNotCount: each way in which a fault does not count is an event of its own, and nothing stays.
func TestWhatDoesNotCount(t *testing.T) {
	for _, row := range []struct {
		why   string
		spoil func(*sim, *Keeper)
		step  scenarios.Step
		want  error
		stage history.FaultStage
		says  string
	}{
		{"nothing there", nil, fault("podDelete", nil, scenarios.Selection{Component: "db", Count: 1}), ErrEmpty, history.FaultEmpty, "nothing there to select"},
		{"too few there", nil, fault("podDelete", nil, scenarios.Selection{Component: "proxy", Count: 9}), ErrEmpty, history.FaultEmpty, "only 3 there, 9 wanted"},
		{"no old revision without a rollout", nil, fault("podDelete", nil, scenarios.Selection{Component: "proxy", Revision: "old", Count: 1}), ErrEmpty, history.FaultEmpty, "old revision"},
		{"a provider without node operations", func(s *sim, k *Keeper) { k.World.Cluster = plain{s} }, fault("nodeKill", nil, oneNode), ErrUnavailable, history.FaultUnavailable, "cannot do anything to nodes"},
		{"a clock that is off by part of a second", nil, fault("clockSkew", scenarios.Args{"by": "1500ms"}, oneProxy), ErrUnavailable, history.FaultUnavailable, "want whole seconds"},
		{"a name that nobody knows", nil, fault("dnsFailure", scenarios.Args{"names": []string{"db*"}, "answer": "nxdomain"}, oneProxy), ErrEmpty, history.FaultEmpty, "none of db*.teleport.svc.cluster.local resolves now"},
		{"a member that is its own leader", nil, fault("backendFailure", scenarios.Args{"how": "noLeader"}, oneProxy), ErrNotInjected, history.FaultFailed, "its own leader"},
		{"a path that would be a program", nil, fault("volumeFull", scenarios.Args{"path": "/a;b"}, oneProxy), ErrNotInjected, history.FaultFailed, "want an absolute path"},
		{"somebody else's cluster", func(s *sim, _ *Keeper) { s.set(func() { s.foreign = true }) }, fault("podDelete", nil, oneProxy), ErrUnavailable, history.FaultUnavailable, "no label shakedown.dev/faults=allowed"},
		{"nobody counts sessions", nil, fault("podDelete", nil, scenarios.Selection{Component: "proxy", Count: 1, By: "mostSessions"}), ErrUnavailable, history.FaultUnavailable, "nobody counts sessions"},
		{"rules that meet no packet", func(s *sim, _ *Keeper) { s.set(func() { s.ticks = -100000 }) }, fault("partition", scenarios.Args{"timeout": "5s"}, oneProxy), ErrNotBitten, history.FaultNotBitten, "the rules met none"},
		{"a budget that forbids it", func(s *sim, _ *Keeper) {
			two := int32(2)
			d := s.deployments()
			for i := range d {
				if d[i].Name == "proxy" {
					d[i].Spec.Replicas = &two
					must(s.update("deployments", &d[i]))
				}
			}
			time.Sleep(10 * time.Second)
		},
			fault("nodeDrain", scenarios.Args{"timeout": "31s"}, scenarios.Selection{Node: &scenarios.NodeSelection{Running: "proxy"}, Count: 1}), ErrNotBitten, history.FaultNotBitten,
			"by PodDisruptionBudget proxy (needs 2 healthy, has 2)"},
		{"an API server that refuses everything", func(s *sim, _ *Keeper) { s.set(func() { s.failing = 1 }) }, fault("podDelete", nil, oneProxy), ErrNotInjected, history.FaultFailed, "simulated failure"},
	} {
		t.Run(row.why, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
				if row.spoil != nil {
					row.spoil(s, k)
				}
				held, err := k.Inject(t.Context(), row.step, 0)
				if held != nil || !errors.Is(err, row.want) {
					t.Fatalf("got %v, want %v", err, row.want)
				}
				i := slices.IndexFunc(events(), func(f history.Fault) bool { return f.Stage == row.stage })
				if i < 0 || !strings.Contains(events()[i].Error+events()[i].Detail, row.says) {
					t.Errorf("events %+v, want %s that says %q", events(), row.stage, row.says)
				}
				s.set(func() { s.failing = 0 })
				left, _ := k.Close(t.Context())
				if len(left) > 0 || len(k.Undo.Pending()) > 0 {
					t.Errorf("left %+v", left)
				}
			})
		})
	}
}

func TestForAndHealOfAll(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, _ func() []history.Fault) {
		began := time.Now()
		held, err := k.Inject(t.Context(), fault("nodeCordon", scenarios.Args{"for": "30s"}, oneNode), 0)
		mustNot(t, err)
		<-held.Done()
		if took := time.Since(began); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("for: 30s lasted %s, want at most 5 s more", took)
		}
		mustNot(t, held.Err())
		if err := k.Heal(t.Context(), "x"); err == nil {
			t.Error("healing what is no longer in force is not told")
		}
		_, err = k.Inject(t.Context(), fault("nodeCordon", nil, oneNode), 0)
		mustNot(t, err)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if left, err := k.Close(cancelled); len(left) > 0 || err != nil {
			t.Errorf("a cancelled run leaves %+v (%v)", left, err)
		}
		for _, n := range s.nodes() {
			if n.Spec.Unschedulable {
				t.Errorf("node %s is still cordoned", n.Name)
			}
		}
	})
}

func TestOthersCordonStays(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, _ func() []history.Fault) {
		for _, n := range s.nodes() {
			n.Spec.Unschedulable = true
			mustNot(t, s.update("nodes", n.DeepCopy()))
		}
		time.Sleep(2 * time.Second)
		held, err := k.Inject(t.Context(), fault("nodeDrain", scenarios.Args{"timeout": "5s"}, scenarios.Selection{Node: &scenarios.NodeSelection{Name: "node1"}, Count: 1}), 0)
		if err == nil {
			mustNot(t, k.Heal(t.Context(), held.Step.ID))
		}
		_, _ = k.Close(t.Context())
		for _, n := range s.nodes() {
			if !n.Spec.Unschedulable {
				t.Errorf("node %s was cordoned by others and is not any more", n.Name)
			}
		}
	})
}

func TestSelectors(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, _ func() []history.Fault) {
		names := func(sel scenarios.Selection) []string {
			site := &Site{World: k.World, Do: scenarios.Do{Selects: map[string]*scenarios.Selection{"select": &sel}}}
			site.Sessions = func() map[types.UID]int {
				counts := map[types.UID]int{}
				for i, p := range s.pods() {
					counts[p.UID] = i
				}
				return counts
			}
			pods, err := site.Pods(t.Context(), "select")
			mustNot(t, err)
			var out []string
			for _, p := range pods {
				out = append(out, p.Name)
			}
			return out
		}
		all := names(scenarios.Selection{Component: "proxy", All: true, Seed: 5})
		if again := names(scenarios.Selection{Component: "proxy", All: true, Seed: 5}); !slices.Equal(all, again) {
			t.Errorf("one seed gives %v and %v", all, again)
		}
		if half := names(scenarios.Selection{Component: "proxy", Share: 0.5, Seed: 5}); !slices.Equal(half, all[:2]) {
			t.Errorf("half of 3 is %v, want the first two of %v", half, all)
		}
		most := names(scenarios.Selection{Component: "proxy", Count: 3, By: "mostSessions"})
		fewest := names(scenarios.Selection{Component: "proxy", Count: 3, By: "fewestSessions"})
		slices.Reverse(fewest)
		if !slices.Equal(most, fewest) || !slices.IsSortedFunc(most, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("most sessions first: %v; fewest first, reversed: %v", most, fewest)
		}
		// During a rollout old and new are told apart, and together they are all.
		for _, d := range s.deployments() {
			if d.Name == "proxy" {
				d.Spec.Template.Spec.Containers[0].Image = "proxy:2"
				mustNot(t, s.update("deployments", d.DeepCopy()))
			}
		}
		time.Sleep(3 * time.Second)
		old := names(scenarios.Selection{Component: "proxy", Revision: "old", All: true})
		fresh := names(scenarios.Selection{Component: "proxy", Revision: "new", All: true})
		now := names(scenarios.Selection{Component: "proxy", All: true})
		if len(old) == 0 || len(fresh) == 0 || len(old)+len(fresh) != len(now) {
			t.Errorf("old %v, new %v, all %v", old, fresh, now)
		}
		for _, name := range fresh {
			if slices.Contains(all, name) {
				t.Errorf("%s is called new and was there before", name)
			}
		}
	})
}

func TestNodeSelectors(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, _ func() []history.Fault) {
		two := 1
		for _, row := range []struct {
			why  string
			sel  scenarios.NodeSelection
			want func(node string) bool
		}{
			{"by name", scenarios.NodeSelection{Name: "node2"}, func(n string) bool { return n == "node2" }},
			{"by number, from 0", scenarios.NodeSelection{Ordinal: &two}, func(n string) bool { return n == "node2" }},
			{"any", scenarios.NodeSelection{Any: true}, func(string) bool { return true }},
			{"those that carry an agent", scenarios.NodeSelection{Running: "agent"}, func(n string) bool { return s.carries(n, "agent") }},
			{"those that carry none", scenarios.NodeSelection{Any: true, Without: "agent"}, func(n string) bool { return !s.carries(n, "agent") }},
		} {
			sel := scenarios.Selection{Node: &row.sel, All: true}
			site := &Site{World: k.World, Do: scenarios.Do{Selects: map[string]*scenarios.Selection{"select": &sel}}}
			nodes, err := site.Nodes(t.Context(), "select")
			mustNot(t, err)
			for _, n := range s.nodes() {
				if got := slices.ContainsFunc(nodes, func(x corev1.Node) bool { return x.Name == n.Name }); got != row.want(n.Name) {
					t.Errorf("%s: %s selected %t", row.why, n.Name, got)
				}
			}
		}
	})
}

// TestTheControlArmsNodeIsSpared: by those faults that take nodes away and choose them.
func TestTheControlArmsNodeIsSpared(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
		arm := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "arm", Namespace: simNS, UID: "uid-arm", Labels: map[string]string{"arm": "control"}},
			Spec: corev1.PodSpec{NodeName: "node2", Containers: []corev1.Container{{Name: "x"}}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		mustNot(t, s.update("pods", arm))
		k.World.Control = "arm=control"
		every := func(n scenarios.NodeSelection) scenarios.Selection { return scenarios.Selection{Node: &n, All: true} }
		for _, row := range []struct {
			why, action string
			sel         scenarios.Selection
			want        string
		}{
			{"any node", "nodePause", every(scenarios.NodeSelection{Any: true}), "node1 node3"},
			{"by what runs there", "nodeDrain", every(scenarios.NodeSelection{Running: "proxy"}), "node1 node3"},
			{"by its name", "nodePause", every(scenarios.NodeSelection{Name: "node2"}), "node2"},
			{"a cordon hurts nobody", "nodeCordon", every(scenarios.NodeSelection{Any: true}), "node1 node2 node3"},
		} {
			site := &Site{World: k.World, Do: scenarios.Do{Action: row.action, Selects: map[string]*scenarios.Selection{"select": &row.sel}}}
			site.hooks.Hit = func(targets []history.Target) {
				for _, target := range targets {
					if spares := strings.HasSuffix(target.Why, "; spared for the control arm: node2"); spares != (len(targets) == 2) {
						t.Errorf("%s: %q", row.why, target.Why)
					}
				}
			}
			nodes, err := site.HitNodes(t.Context())
			mustNot(t, err)
			var got []string
			for _, n := range nodes {
				got = append(got, n.Name)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != row.want {
				t.Errorf("%s: %s, want %s", row.why, got, row.want)
			}
		}
		only := scenarios.Selection{Node: &scenarios.NodeSelection{Any: true}, Count: 3}
		_, err := k.Inject(t.Context(), fault("nodeKill", nil, only), 0)
		if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "only 2 there, 3 wanted; spared for the control arm: node2") {
			t.Errorf("more than there are beside it: %v", err)
		}
	})
}

// TestNamedNodes are those that the control arm is kept off.
func TestNamedNodes(t *testing.T) {
	node := func(name string) corev1.Node { return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	control := node("api")
	control.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	all, last := []corev1.Node{control, node("node2"), node("node1")}, 1
	kill := func(n scenarios.NodeSelection) scenarios.Step {
		step := fault("nodeKill", nil, scenarios.Selection{Node: &n, Count: 1})
		step.Hits = scenarios.HitsNodes
		return step
	}
	for _, row := range []struct {
		why   string
		steps []scenarios.Step
		want  string
	}{
		{"none", []scenarios.Step{kill(scenarios.NodeSelection{Any: true})}, ""},
		{"by number, the control plane aside", []scenarios.Step{kill(scenarios.NodeSelection{Ordinal: &last})}, "node2"},
		{"by name, once, though two faults do it", []scenarios.Step{kill(scenarios.NodeSelection{Name: "node1"}), kill(scenarios.NodeSelection{Name: "node1"})}, "node1"},
		{"one that is not there", []scenarios.Step{kill(scenarios.NodeSelection{Name: "node9"})}, ""},
		{"all: then the control arm must stand on one", []scenarios.Step{kill(scenarios.NodeSelection{Name: "node1"}), kill(scenarios.NodeSelection{Name: "node2"})}, ""},
	} {
		if got := strings.Join(NamedNodes(all, row.steps), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

func (s *sim) carries(node, component string) bool {
	return slices.ContainsFunc(s.pods(), func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && p.Labels["app.kubernetes.io/component"] == component
	})
}

func TestBlocksAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocks(nil)
		began := time.Now()
		at := func(d time.Duration) time.Time { return began.Add(d * time.Second) }
		b.past = []blocked{
			{"PodDisruptionBudget teleport-proxy", "needs 2 healthy, has 2", at(0), at(20)},
			{"PodDisruptionBudget teleport-proxy", "needs 2 healthy, has 2", at(10), at(31)}, // at the same time
			{"PodDisruptionBudget teleport-auth", "needs 1 healthy, has 1", at(3), at(5)},
		}
		const want = "blocked 2.0 s by PodDisruptionBudget teleport-auth (needs 1 healthy, has 1), " +
			"blocked 31 s by PodDisruptionBudget teleport-proxy (needs 2 healthy, has 2)"
		if got := b.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestBarePodsAreRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: simNS, UID: "uid-bare", Labels: map[string]string{"app.kubernetes.io/component": "bare"}},
			Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "x"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		mustNot(t, s.update("pods", p))
		_, err := k.Inject(t.Context(), fault("podDelete", nil, scenarios.Selection{Component: "bare", Count: 1}), 0)
		if err == nil || !strings.Contains(err.Error(), "no controller that would bring it back") {
			t.Errorf("got %v", err)
		}
		if _, err := s.pod(simNS, "bare"); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	})
}

// plain is a cluster whose provider can do nothing to nodes.
type plain struct{ clusters.Cluster }

func (p plain) Facts(ctx context.Context) (clusters.Facts, error) {
	f, err := p.Cluster.Facts(ctx)
	f.Provider = "existing"
	return f, err
}

func TestTheOwnerOfANamespaceMayAllowFaults(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, _ func() []history.Fault) {
		s.set(func() { s.foreign = true })
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: simNS, Labels: map[string]string{AllowLabel: AllowValue}}}
		mustNot(t, s.update("namespaces", ns))
		mustNot(t, k.Check(t.Context(), []scenarios.Step{fault("podDelete", nil, oneProxy)}))
		k.World.Cluster = nil
		err := k.Check(t.Context(), []scenarios.Step{fault("podDelete", nil, oneProxy), fault("nodeKill", nil, oneNode), fault("clockSkew", scenarios.Args{"by": "1m"}, oneProxy)})
		if err == nil || strings.Contains(err.Error(), "podDelete") || !strings.Contains(err.Error(), "nodeKill") || !strings.Contains(err.Error(), "programs that run on the nodes") {
			t.Errorf("want both that are not available and no other, got %v", err)
		}
	})
}

// TestDNSOfOthers: without a way to the processes of the DNS its ConfigMap is changed, and changed back.
func TestDNSOfOthers(t *testing.T) {
	const before = ".:53 {\n    reload\n    kubernetes cluster.local\n}\n"
	inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
		system := metav1.ObjectMeta{Name: "coredns", Namespace: "kube-system", UID: "uid-coredns", Annotations: map[string]string{"theirs": "stays"}}
		mustNot(t, s.client.Tracker().Add(&corev1.ConfigMap{ObjectMeta: system, Data: map[string]string{"Corefile": before}}))
		mustNot(t, s.client.Tracker().Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: "kube-system"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10"}}))
		k.World.Cluster = plain{s}
		now := func() *corev1.ConfigMap {
			m, err := s.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
			mustNot(t, err)
			return m
		}
		held, err := k.Inject(t.Context(), fault("dnsFailure", scenarios.Args{"names": []string{"proxy"}, "answer": "servfail"}, scenarios.Selection{}), 0)
		mustNot(t, err)
		if text := now().Data["Corefile"]; !strings.HasSuffix(text, before) || !strings.Contains(text, "rcode SERVFAIL") {
			t.Errorf("the configuration is %s", text)
		}
		_, err = k.Inject(t.Context(), fault("dnsFailure", scenarios.Args{"names": []string{"auth"}}, scenarios.Selection{}), 0)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "is changed by run") {
			t.Errorf("a second one: %v", err)
		}
		mustNot(t, k.Heal(t.Context(), held.Step.ID))
		if m := now(); m.Data["Corefile"] != before || len(m.Annotations) != 1 {
			t.Errorf("left behind: %+v", m)
		}
	})
}

// TestPluginsOfDNS: a CoreDNS that was built without what the fault needs is known by its own list.
func TestPluginsOfDNS(t *testing.T) {
	const list = "Server types:\n  dns\n\nOther plugins:\n  dns.acl\n  dns.kubernetes\n  dns.view\n"
	for _, tt := range []struct{ listing, answer, want string }{
		{list, "timeout", ""}, {list, "nxdomain", "template"}, {list, "stale", "hosts"}, {"dns.kubernetes", "", "view template"}, {"flag provided but not defined", "", ""},
	} {
		if got := strings.Join(without(tt.listing, pluginsFor(tt.answer)), " "); got != tt.want {
			t.Errorf("%q for %s lacks %q, want %q", tt.listing, tt.answer, got, tt.want)
		}
	}
}

// TestResetsHealWithTheConnections: what was cut between pods is healed when they are connected again.
func TestResetsHealWithTheConnections(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim, k *Keeper, events func() []history.Fault) {
		held, err := k.Inject(t.Context(), fault("reconnectStorm", scenarios.Args{"who": "agents"}), 0)
		mustNot(t, err)
		<-held.Done()
		mustNot(t, held.Err())
		all := events()
		if proof := all[len(all)-1].Proof; !strings.Contains(proof, "6 of 6 connections with others of the namespace are there again") {
			t.Errorf("healed by %q", proof)
		}
	})
}
