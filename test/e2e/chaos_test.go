package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

// faults is a keeper over one namespace, with what it recorded.
type faults struct {
	*space
	keeper *chaos.Keeper
	folder string
	dead   bool // its runner is: others clean up

	mu     sync.Mutex
	events []history.Fault
	ended  map[string]stopwatch // by fault: since healing began
}

// inject runs the faults of one test. At its end nothing may be pending.
func newFaults(s *space) *faults {
	f := &faults{space: s, folder: s.t.TempDir()}
	id, err := undo.ClusterID(s.ctx, s.cs)
	s.must(err)
	head := undo.Head{Run: "run-" + s.name, Provider: "embedded", Cluster: s.c.Name(), ClusterID: id, Namespace: s.name}
	log, err := undo.Create(filepath.Join(f.folder, undo.FileName), head, undo.ConfigMaps{Client: s.cs, Namespace: s.name})
	s.must(err)
	f.keeper = &chaos.Keeper{
		World: chaos.World{Client: s.cs, REST: s.rc, Namespace: s.name, Run: head.Run, Cluster: s.c,
			Labels: map[string]string{"web": "app=web", "proxy": "app=web"}},
		Undo: log, Record: f.record, HealBound: patience,
	}
	s.t.Cleanup(func() {
		if f.dead {
			return
		}
		if unhealed, err := f.keeper.Close(context.Background()); err != nil || len(unhealed) > 0 {
			s.t.Errorf("left behind: %+v (%v)", unhealed, err)
		}
		if runs, err := undo.Runs(context.Background(), s.cs); err != nil || slices.Contains(runs, head.Run) {
			s.t.Errorf("the cluster still holds intents of %v (%v)", runs, err)
		}
		s.must(log.Close())
	})
	return f
}

func (f *faults) record(e history.Event) {
	if fault, is := e.Data.(history.Fault); is {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, fault)
		f.timed(fault)
		f.t.Logf("%s %s: %s %s %s", fault.ID, fault.Stage, fault.Proof, fault.Detail, fault.Error)
	}
}

// timed holds healing to the time that the kit promises, where it waits for nothing. The caller holds f.mu.
func (f *faults) timed(fault history.Fault) {
	switch fault.Stage {
	case history.FaultHeal:
		if f.ended == nil {
			f.ended = map[string]stopwatch{}
		}
		f.ended[fault.ID] = startWatch(f.t)
	case history.FaultHealed:
		took, busy := f.ended[fault.ID]()
		f.t.Logf("%s (%s) healed in %s; this process waited up to %s for its turn", fault.ID, fault.Name, took.Round(100*time.Millisecond), busy.Round(time.Millisecond))
		kind, err := chaos.Find(fault.Name)
		if err != nil {
			f.t.Error(err)
		}
		// Told and not asserted: six tests share the machine, and then the time says little about the fault.
		if kind.Slow == "" && took > chaos.HealTime {
			f.t.Logf("%s (%s) took %s to heal, more than %s", fault.ID, fault.Name, took, chaos.HealTime)
		}
	}
}

// stopwatch gives the time since its start, and the longest that this process was late in it. It may be asked once.
type stopwatch func() (took, late time.Duration)

func startWatch(t *testing.T) stopwatch {
	const every = 20 * time.Millisecond
	began, asked, answer := time.Now(), make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var late time.Duration
		for last := time.Now(); ; {
			select {
			case <-asked:
				answer <- late
				return
			case <-t.Context().Done():
				return
			case <-time.After(every):
			}
			now := time.Now()
			late, last = max(late, now.Sub(last)-every), now
		}
	}()
	return func() (time.Duration, time.Duration) {
		took := time.Since(began)
		close(asked)
		select {
		case late := <-answer:
			return took, late
		case <-t.Context().Done():
			return took, took
		}
	}
}

// abandon says that the keeper is that of a dead runner.
func (f *faults) abandon() { f.dead = true }

// at is the last event of that stage; without one the test fails.
func (f *faults) at(stage history.FaultStage) history.Fault {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.events) - 1; i >= 0; i-- {
		if f.events[i].Stage == stage {
			return f.events[i]
		}
	}
	f.t.Fatalf("no event %s among %+v", stage, f.events)
	return history.Fault{}
}

// step is one fault of a timeline, as the plan has it.
func step(name, action string, args scenarios.Args, sel scenarios.Selection) scenarios.Step {
	word, _ := scenarios.Words().Find(action)
	selects := map[string]*scenarios.Selection{"select": &sel}
	return scenarios.Step{
		ID: name, Name: name, Fault: word.Fault, Lasting: word.Lasting, Hits: word.Hits,
		Do: &scenarios.Do{Action: action, Args: args, Selects: selects},
	}
}

// inject is a fault that has to bite.
func (f *faults) inject(s scenarios.Step) *chaos.Held {
	f.t.Helper()
	held, err := f.keeper.Inject(f.ctx, s, 0)
	f.must(err)
	return held
}

func (f *faults) healed(h *chaos.Held) {
	f.t.Helper()
	select {
	case <-h.Done():
		f.must(h.Err())
	case <-time.After(patience):
		f.t.Fatalf("%s is not healed after %s", h.Step.ID, patience)
	}
}

const served = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: APP, args: [-config, /etc/web/web.yaml], readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1},
         volumeMounts: [{name: data, mountPath: /var/lib/teleport}, {name: config, mountPath: /etc/web}]}
      volumes: [{name: data, emptyDir: {}}, {name: config, configMap: {name: web}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {web.yaml: "teleport: {nodename: web}"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080}]}
`

// atOnce runs independent tests at the same time, as many as a busy machine bears: most of each is waiting.
func atOnce[T any](t *testing.T, rows []T, name func(T) string, test func(t *testing.T, row T)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 6)
	for _, row := range rows {
		all.Add(1)
		go func() {
			defer all.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(name(row), func(t *testing.T) { test(t, row) })
		}()
	}
	all.Wait()
}

func TestE2EChaosPodDelete(t *testing.T) {
	for _, row := range []struct {
		why  string
		args scenarios.Args
		sel  scenarios.Selection
		hits int
	}{
		{"one pod, at once", scenarios.Args{"gracePeriod": "0s"}, scenarios.Selection{Component: "web", Count: 1, Seed: 7}, 1},
		{"half of them, gracefully, one after another", scenarios.Args{"every": "1s"}, scenarios.Selection{Component: "web", Share: 0.5}, 2},
		{"all at once", scenarios.Args{}, scenarios.Selection{Component: "web", All: true, Revision: "new"}, 3},
	} {
		inSpace(t, row.why, func(s *space) {
			s.apply(served)
			before := s.ready("web", 3)
			s.eventually("endpoints", func() error { return s.behind("web", 3) })
			f := newFaults(s)
			f.healed(f.inject(step("kill", "podDelete", row.args, row.sel)))
			bit, healed := f.at(history.FaultBit), f.at(history.FaultHealed)
			if len(bit.Targets) != row.hits {
				t.Errorf("%d targets, want %d", len(bit.Targets), row.hits)
			}
			for _, target := range bit.Targets {
				if !strings.Contains(bit.Proof, target.UID) {
					t.Errorf("the proof %q does not speak of UID %s", bit.Proof, target.UID)
				}
				if !containsUID(before, target.UID) || containsUID(s.pods("web"), target.UID) {
					t.Errorf("pod %s was not there before, or is there still", target.Name)
				}
			}
			if !strings.Contains(healed.Proof, "Deployment web has 3 of 3 ready") {
				t.Errorf("healed by %q", healed.Proof)
			}
			s.ready("web", 3)
		})
	}
}

// behind is nil if n pods stand ready behind the Service.
func (s *space) behind(service string, n int) error {
	list, err := s.cs.DiscoveryV1().EndpointSlices(s.name).List(s.ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	s.must(err)
	ready := 0
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready++
			}
		}
	}
	if ready != n {
		return fmt.Errorf("%d are ready behind %s", ready, service)
	}
	return nil
}

func containsUID(pods []corev1.Pod, uid string) bool {
	for _, p := range pods {
		if string(p.UID) == uid {
			return true
		}
	}
	return false
}

func TestE2EChaosEmptySelection(t *testing.T) {
	inSpace(t, "what selects nothing changes nothing and says so", func(s *space) {
		s.apply(served)
		before := s.ready("web", 3)
		f := newFaults(s)
		_, err := f.keeper.Inject(s.ctx, step("kill", "podDelete", nil, scenarios.Selection{Component: "web", Revision: "old", Count: 1}), 0)
		if !errors.Is(err, chaos.ErrEmpty) {
			t.Errorf("got %v, want ErrEmpty", err)
		}
		f.at(history.FaultEmpty)
		for _, p := range s.ready("web", 3) {
			if !containsUID(before, string(p.UID)) {
				t.Errorf("pod %s is new", p.Name)
			}
		}
	})
}

// The tests below break nodes, so they have a cluster of their own.
func TestE2EChaosNodes(t *testing.T) {
	t.Parallel()
	// A busy machine must not make nodes that nobody touched look lost.
	c, err := up(t.Context(), uniqueName("chaos"), func(s *clusters.Spec) { s.NodeMonitorGrace = 12 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Down(context.Background(), c.Name()); err != nil {
			t.Error(err)
		}
	})
	for _, row := range []struct {
		name string
		test func(*faults)
	}{
		{"a drain moves the pods, uncordons what it cordoned, and is proved", testChaosDrain},
		{"a drain of the node that has a volume strands its pod, which comes back afterwards", testChaosStrandingDrain},
		{"a drain that a budget forbids says which, what it needs and for how long", testChaosBlockedDrain},
		{"each fault of nodes breaks them as it says, and they are as before when it is healed", testChaosNodeFaults},
		{"the API server is away while data traffic lives", testChaosAPIServer},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSpace(t.Context(), t, c)
			row.test(newFaults(s))
		})
	}
	nothingLeft(t, c)
}

// cleanNodes is nil if no controller has a taint left on a node.
func cleanNodes(ctx context.Context, cs *kubernetes.Clientset) error {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s: %+v", n.Name, n.Spec.Taints)
		}
	}
	return nil
}

// nothingLeft is what every test of faults ends with.
func nothingLeft(t *testing.T, c clusters.Cluster) {
	t.Helper()
	list, err := clientset(t, c).CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || n.Annotations[undo.CordonMark] != "" || !undo.NodeReady(&n) {
			t.Errorf("node %s: %+v %v", n.Name, n.Spec, n.Annotations)
		}
	}
}

func onNode(running string) scenarios.Selection {
	return scenarios.Selection{Node: &scenarios.NodeSelection{Running: running}, Count: 1}
}

func testChaosDrain(f *faults) {
	f.apply(budgeted(1))
	f.ready("web", 2)
	f.inject(step("drain", "nodeDrain", scenarios.Args{"timeout": "60s"}, onNode("web")))
	bit := f.at(history.FaultBit)
	node := bit.Targets[0].Name
	for _, p := range f.ready("web", 2) {
		if p.Spec.NodeName == node {
			f.t.Errorf("%s is on the drained node", p.Name)
		}
	}
	if !strings.Contains(bit.Proof, node+" tainted as unschedulable") || !strings.Contains(bit.Proof, "are gone") {
		f.t.Errorf("proof: %q", bit.Proof)
	}
	f.must(f.keeper.Heal(f.ctx, "drain"))
	if healed := f.at(history.FaultHealed); !strings.Contains(healed.Proof, node+" schedulable") {
		f.t.Errorf("healed: %q", healed.Proof)
	}
	nothingLeft(f.t, f.c)
}

func testChaosStrandingDrain(f *faults) {
	f.apply(claiming)
	f.ready("web", 1)
	f.inject(step("drain", "nodeDrain", scenarios.Args{"timeout": "60s"}, onNode("web")))
	bit := f.at(history.FaultBit)
	if !strings.Contains(bit.Detail, "pod web-0 waits for its volume: ") {
		f.t.Errorf("the detail %q does not tell of the stranded pod", bit.Detail)
	}
	f.must(f.keeper.Heal(f.ctx, "drain"))
	if p := f.ready("web", 1)[0]; p.Spec.NodeName != bit.Targets[0].Name {
		f.t.Errorf("%s is on %s, its volume on %s", p.Name, p.Spec.NodeName, bit.Targets[0].Name)
	}
	nothingLeft(f.t, f.c)
}

// claiming is a pod with a volume of its own, which is a directory of one node.
const claiming = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: APP, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

func testChaosBlockedDrain(f *faults) {
	f.apply(budgeted(2))
	before := f.ready("web", 2)
	f.eventually("budget in force", func() error {
		b, err := f.cs.PolicyV1().PodDisruptionBudgets(f.name).Get(f.ctx, "web", metav1.GetOptions{})
		f.must(err)
		if b.Status.CurrentHealthy != 2 {
			return fmt.Errorf("%+v", b.Status)
		}
		return nil
	})
	_, err := f.keeper.Inject(f.ctx, step("drain", "nodeDrain", scenarios.Args{"timeout": "6s"}, onNode("web")), 0)
	if !errors.Is(err, chaos.ErrNotBitten) {
		f.t.Fatalf("got %v, want ErrNotBitten", err)
	}
	said := f.at(history.FaultNotBitten)
	for _, want := range []string{"drain of node", "blocked", "by PodDisruptionBudget web (needs 2 healthy, has 2)"} {
		if !strings.Contains(said.Detail, want) || !strings.Contains(said.Error, want) {
			f.t.Errorf("%q and %q do not say %q", said.Detail, said.Error, want)
		}
	}
	for _, p := range f.ready("web", 2) {
		if !containsUID(before, string(p.UID)) {
			f.t.Errorf("pod %s is new: the budget was not honoured", p.Name)
		}
	}
	nothingLeft(f.t, f.c)
}
