package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

// walker is one run that lives many faults.
type walker struct {
	t      *testing.T
	sim    *sim
	random *rand.Rand
	folder string
	lives  int
	seen   map[string]int // what happened, for the test to see that it walked

	mu     sync.Mutex
	events []history.Fault
}

func (w *walker) keeper(n int) (*Keeper, string) {
	path := filepath.Join(w.folder, fmt.Sprintf("undo-%d.jsonl", n))
	log, err := undo.Create(path, undo.Head{Run: fmt.Sprintf("run-%d", n), Namespace: simNS}, undo.ConfigMaps{Client: w.sim.client, Namespace: simNS})
	mustNot(w.t, err)
	log.TryFor = 20 * time.Second
	return &Keeper{
		World: World{Client: w.sim.client, Namespace: simNS, Run: fmt.Sprintf("run-%d", n), Cluster: w.sim},
		Undo:  log, Record: w.record, HealBound: 40 * time.Second,
	}, path
}

func (w *walker) record(e history.Event) {
	if f, is := e.Data.(history.Fault); is {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, f)
	}
}

// step is one fault of the kit with random parameters.
func (w *walker) step() scenarios.Step {
	words := scenarios.Words().Only(Names()...).Without("latency")
	word := words[w.random.IntN(len(words))]
	pick := func(all ...string) string { return all[w.random.IntN(len(all))] }
	pods := &scenarios.Selection{Component: pick("proxy", "auth", "agent"), Count: 1 + w.random.IntN(2), Seed: w.random.Uint64()}
	if w.random.IntN(4) == 0 {
		pods.Count, pods.Share = 0, 0.5
	}
	nodes := &scenarios.Selection{Node: &scenarios.NodeSelection{Running: pick("proxy", "auth", "agent")}, Count: 1, Seed: w.random.Uint64()}
	do := &scenarios.Do{Action: word.Name, Selects: map[string]*scenarios.Selection{}, Args: scenarios.Args{
		"timeout": "15s", "key": "shakedown.dev/taint", "effect": pick("NoExecute", "NoSchedule"), "signal": "KILL", "share": 0.5, "rate": 1000.0,
		"component": pods.Component, "how": pick("image", "init", "antiAffinity", "quota", "config"), "names": []string{pick("proxy", "a*")},
		"answer": pick("nxdomain", "servfail", "timeout", "stale"), "path": "/var/lib/teleport", "cpus": 2.0, "memory": 65536.0, "files": 3.0, "by": "10m", "delay": "100ms", "who": pick("agents", "clients"), "down": "2s", "direction": pick("in", "out", "both"),
	}}
	if word.Name == "backendFailure" {
		do.Args["how"] = pick("paused", "slow", "noLeader")
	}
	for _, p := range word.Params {
		switch p.Type {
		case scenarios.TypePods:
			do.Selects[p.Name] = pods
		case scenarios.TypeNodes:
			do.Selects[p.Name] = nodes
		}
	}
	if word.Name == "podDelete" && w.random.IntN(2) == 0 {
		do.Args["gracePeriod"] = "0s"
	}
	if word.Lasting && w.random.IntN(2) == 0 {
		do.Args["for"] = "3s"
	}
	return scenarios.Step{ID: fmt.Sprintf("f%d", w.lives), Name: word.Name, Fault: true, Lasting: word.Lasting, Do: do}
}

// life is one run with a few faults and one misfortune, and whoever comes after it.
func (w *walker) life() {
	w.lives++
	before := w.sim.left()
	keeper, path := w.keeper(w.lives)
	ctx, cancel := context.WithCancel(context.Background())
	misfortune := []string{"none", "cancel", "errors", "death", "vanish"}[w.random.IntN(5)]
	w.seen[misfortune]++
	after := time.Duration(w.random.IntN(6000)) * time.Millisecond
	befall := time.AfterFunc(after, func() { w.befall(misfortune, cancel, path) })
	for range 1 + w.random.IntN(2) {
		w.one(ctx, keeper)
		w.lives++
	}
	befall.Stop()
	w.sim.set(func() { w.sim.failing = 0 })
	left, _ := keeper.Close(ctx)
	cancel()
	died := w.sim.revive()
	if !died && len(left) > 0 {
		w.t.Fatalf("%s: not undone: %+v", misfortune, left)
	}
	mustNot(w.t, keeper.Undo.Close())
	if died {
		w.heal(path+".dead", keeper.World.Run)
	}
	w.recovered(before, misfortune)
}

func (w *walker) one(ctx context.Context, keeper *Keeper) {
	step := w.step()
	w.events = nil
	held, err := keeper.Inject(ctx, step, 0)
	w.seen[step.Name]++
	if err == nil && w.random.IntN(2) == 0 && step.Lasting && !step.Do.Args.Has("for") {
		_ = keeper.Heal(ctx, step.ID)
		<-held.Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stages := map[history.FaultStage]history.Fault{}
	for _, e := range w.events {
		if e.ID == step.ID {
			stages[e.Stage] = e
		}
	}
	bit, hasBit := stages[history.FaultBit]
	if (err == nil) != hasBit || hasBit && bit.Proof == "" {
		w.t.Fatalf("%s: error %v, but events %+v", step.Name, err, w.events)
	}
	if err == nil {
		w.seen[step.Name+" bit"]++
		return
	}
	if len(stages) == 0 || !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotInjected) && !errors.Is(err, ErrNotBitten) {
		w.t.Fatalf("%s: %v is none of the reasons; events %+v", step.Name, err, w.events)
	}
}

// befall is what happens to a run at some moment.
func (w *walker) befall(what string, cancel context.CancelFunc, path string) {
	switch what {
	case "cancel":
		cancel()
	case "errors":
		w.sim.set(func() { w.sim.failing = 0.2 })
	case "death":
		w.sim.set(func() {
			w.sim.dead = true
			copyFile(w.t, path, path+".dead") // what the process writes from now on does not count
		})
	case "vanish":
		w.sim.api.Lock()
		defer w.sim.api.Unlock()
		for _, p := range w.sim.pods()[:2] {
			_ = w.sim.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), p.Namespace, p.Name)
		}
	}
}

func (s *sim) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// revive lets calls have an effect again, and says whether they had none.
func (s *sim) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	died := s.dead
	s.dead, s.failing = false, 0
	return died
}

func copyFile(t *testing.T, from, to string) {
	in, err := os.Open(from)
	mustNot(t, err)
	defer in.Close()
	out, err := os.Create(to)
	mustNot(t, err)
	defer out.Close()
	_, err = io.Copy(out, in)
	mustNot(t, err)
}

// heal is what shakedown heal does, from either copy of the intents.
func (w *walker) heal(path, run string) {
	var log *undo.Log
	var err error
	if w.random.IntN(2) == 0 {
		log, err = undo.Open(path, undo.ConfigMaps{Client: w.sim.client, Namespace: simNS})
	} else {
		w.sim.set(func() { w.sim.away = false }) // the API server alone can tell
		log, err = undo.FromCluster(context.Background(), w.sim.client, run)
	}
	mustNot(w.t, err)
	results, err := undo.Heal(context.Background(), log, undo.Cluster{Client: w.sim.client, Cluster: w.sim})
	mustNot(w.t, err)
	for _, r := range results {
		if r.Err != nil {
			w.t.Fatalf("heal %s (fault %s): %v", r.Entry.Change.What, r.Entry.Change.Fault, r.Err)
		}
	}
	w.seen["healed after death"] += len(results)
	mustNot(w.t, log.Close())
}

// recovered waits for the controllers and compares all that a run could leave behind.
func (w *walker) recovered(before map[string]string, misfortune string) {
	w.t.Helper()
	for range 60 {
		if cmp.Equal(before, w.sim.left()) {
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("after %s, left behind:\n%s\nevents: %+v", misfortune, cmp.Diff(before, w.sim.left()), w.events)
}

// left is everything that a run could leave behind.
func (s *sim) left() map[string]string {
	ctx := context.Background()
	out := map[string]string{}
	for _, n := range s.nodes() {
		out["node "+n.Name] = fmt.Sprint(n.Spec.Unschedulable, n.Spec.Taints, n.Annotations, n.Status.Conditions)
	}
	for _, d := range s.deployments() {
		out["deployment "+d.Name] = fmt.Sprintf("%v %+v ready %d of %d, %d updated", d.Annotations, d.Spec.Template, d.Status.ReadyReplicas, d.Status.Replicas, d.Status.UpdatedReplicas)
	}
	maps, err := s.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, m := range maps.Items {
			out["map "+m.Name] = fmt.Sprint(m.Data)
		}
	}
	quotas, err := s.client.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, q := range quotas.Items {
			out["quota "+q.Name] = "there"
		}
	}
	for _, p := range s.pods() {
		if p.Labels[undo.RunLabel] != "" {
			out["pod "+p.Name] = "there"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out["nodes"], out["cut"], out["tables"], out["stopped"], out["away"] = fmt.Sprint(s.states), fmt.Sprint(s.cut), fmt.Sprint(s.tables), fmt.Sprint(s.stopped), fmt.Sprint(s.away)
	out["dns"] = fmt.Sprint(s.dns)
	for key, args := range s.spoils {
		if s.running(args[0]) != nil {
			out[key] = "there"
		}
	}
	return out
}

// TestRandomWalk drives the whole kit through its lives, with everything that can go wrong going wrong,
// and finds nothing left behind.
func TestRandomWalk(t *testing.T) {
	lives := 400
	if testing.Short() {
		lives = 60
	}
	seen := map[string]int{}
	folder := t.TempDir()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				s := newSim(seed)
				go s.run(ctx, 500*time.Millisecond)
				time.Sleep(10 * time.Second)
				dir := filepath.Join(folder, fmt.Sprint(seed))
				mustNot(t, os.Mkdir(dir, 0o700))
				w := &walker{t: t, sim: s, random: rand.New(rand.NewPCG(seed, 2)), folder: dir, seen: seen}
				for range lives / 4 {
					w.life()
				}
			})
		})
	}
	t.Log(seen)
	for _, name := range Names() {
		if name != "latency" && seen[name+" bit"] == 0 && !testing.Short() {
			t.Errorf("%s never bit: %v", name, seen)
		}
	}
}
