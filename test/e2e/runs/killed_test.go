package runs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/undo"
)

// breaking takes a pod away, then a node, and then stops the API server, each with its lines in the undo log.
const breaking = `timeline=[{name: hold, wait: 5s}, ` +
	`{name: kill, do: {podDelete: {select: {component: proxy, count: 1}, gracePeriod: 0s}}}, {name: replaced, wait: 4s}, ` +
	`{name: cordon, do: {nodeCordon: {select: {node: {name: node1}, count: 1}}}}, ` +
	`{name: away, do: {apiServerOutage: {for: 8s}}}, {name: tail, wait: 10s}]`

// step is a line of the undo log.
type step struct {
	what  string // of the change, its beginning
	state undo.State
}

// stopped is the step at which the API server is away.
var stopped = step{"stop the API server", undo.Made}

// walk are the lines of the log of such a run.
func walk() (out []step) {
	for _, what := range []string{"remove pod", "cordon node1", stopped.what} {
		for _, state := range []undo.State{undo.Intended, undo.Made, undo.Undone} {
			out = append(out, step{what, state})
		}
	}
	return out
}

// reached says whether the log has the step.
func (s step) reached(log []byte) bool {
	changes := map[int]string{}
	for raw := range bytes.Lines(log) {
		var line struct {
			ID     int
			State  undo.State
			Change undo.Change
		}
		if json.Unmarshal(raw, &line) != nil {
			continue // not whole yet
		}
		if line.Change.What != "" {
			changes[line.ID] = line.Change.What
		}
		if strings.HasPrefix(changes[line.ID], s.what) && line.State == s.state {
			return true
		}
	}
	return false
}

// TestE2EKilledRunIsHealed kills the runner at each step of its undo log, as nothing can be caught, and lets the
// command line heal what it left.
func TestE2EKilledRunIsHealed(t *testing.T) {
	for _, s := range walk() {
		t.Run(strings.ReplaceAll(s.what, " ", "-")+"-"+string(s.state), func(t *testing.T) {
			if !long() && s != stopped {
				t.Skip(longEnv + " is not set: only the hardest step is tried")
			}
			r := startRunner(t, breaking)
			before := r.snapshot(t)
			r.await(t, s)
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Wait()
			if out, err := r.shakedown(t, "heal", r.folder); err != nil {
				t.Fatalf("heal: %v\n%s", err, out)
			}
			r.sameAs(t, before, 30*time.Second)
			if out, err := r.shakedown(t, "heal", r.folder); err != nil || !strings.Contains(out, "Nothing to heal") {
				t.Errorf("healed once more: %v\n%s", err, out)
			}
		})
	}
}

// TestE2EInterruptedRunHeals: the first Ctrl-C heals and reports what there is, the second leaves the report out.
func TestE2EInterruptedRunHeals(t *testing.T) {
	onlyLong(t)
	for _, row := range []struct {
		why     string
		signals int
		verdict bool
	}{
		{"the first heals and reports", 1, true},
		{"the second only heals", 2, false},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := startRunner(t, breaking)
			before := r.snapshot(t)
			r.await(t, step{"cordon node1", undo.Made})
			for range row.signals {
				if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond) // or the kernel makes one of them
			}
			_ = r.cmd.Wait()
			if code := r.cmd.ProcessState.ExitCode(); code != int(exit.Interrupted) {
				t.Errorf("it ended with %d, want %d", code, exit.Interrupted)
			}
			if err := there(r.folder, "verdict.json"); (err == nil) != row.verdict {
				t.Errorf("a verdict is there: %t, want %t", err == nil, row.verdict)
			}
			if out, err := r.shakedown(t, "heal", r.folder); err != nil || !strings.Contains(out, "Nothing to heal") {
				t.Errorf("something was left to heal: %v\n%s", err, out)
			}
			r.sameAs(t, before, 30*time.Second)
		})
	}
}

// runner is the program as its users start it, on a cluster that outlives it.
type runner struct {
	cmd     *exec.Cmd
	folder  string
	cluster clusters.Cluster
}

// startRunner returns when the run holds its sessions and has changed nothing yet.
func startRunner(t *testing.T, timeline string) *runner {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "scenario.yaml")
	if err := os.WriteFile(file, planted, 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, "kubelite")
	program(t, "standin")
	cmd := exec.CommandContext(t.Context(), program(t, "shakedown"), "run", file, "--set", timeline,
		"--out", filepath.Join(dir, "out"), "--keep", "always", "--progress", "plain", "--seed", "1")
	said := &bytes.Buffer{}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &runner{cmd: cmd}
	t.Cleanup(func() { r.end(t) })
	lines := bufio.NewScanner(io.TeeReader(stderr, said))
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Holding sessions") {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			r.find(t, filepath.Join(dir, "out"))
			return r
		}
	}
	t.Fatalf("it never held sessions: %v\n%s", cmd.Wait(), said)
	return nil
}

func (r *runner) find(t *testing.T, out string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(out, "*", undo.FileName))
	if err != nil || len(folders) != 1 {
		t.Fatalf("run folders: %v, %v", folders, err)
	}
	r.folder = filepath.Dir(folders[0])
	name := "run-" + r.folder[len(r.folder)-4:]
	list, err := (&embedded.Provider{}).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Name() == name {
			r.cluster = c
		}
	}
	if r.cluster == nil {
		t.Fatalf("cluster %s is not up", name)
	}
}

func (r *runner) end(t *testing.T) {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	if r.cluster != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := (&embedded.Provider{}).Down(ctx, r.cluster.Name()); err != nil {
			t.Error(err)
		}
	}
}

// await returns as soon as the undo log has the step.
func (r *runner) await(t *testing.T, s step) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		log, err := os.ReadFile(filepath.Join(r.folder, undo.FileName))
		if err != nil {
			t.Fatal(err)
		}
		if s.reached(log) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the undo log never had %+v:\n%s", s, log)
		}
	}
}

func (r *runner) shakedown(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(t, "shakedown"), args...).CombinedOutput()
	return string(out), err
}

// snapshot is all of the cluster that the run's changes touch, and where it keeps its copies of them.
func (r *runner) snapshot(t *testing.T) map[string]string {
	t.Helper()
	s, err := r.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *runner) look(ctx context.Context) (map[string]string, error) {
	config, err := r.cluster.RESTConfig(ctx)
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		var ready string
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" {
				ready = string(c.Status)
			}
		}
		out["node "+n.Name] = fmt.Sprintf("unschedulable %t, taints %v, annotations %v, Ready %s", n.Spec.Unschedulable, n.Spec.Taints, n.Annotations, ready)
	}
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, d := range deployments.Items {
		out["deployment "+d.Name] = fmt.Sprintf("generation %d, %d ready", d.Generation, d.Status.ReadyReplicas)
	}
	maps, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, m := range maps.Items {
		out["configmap "+m.Name] = fmt.Sprint(m.Labels)
	}
	return out, nil
}

// sameAs waits until the cluster is as it was: pods and nodes take a moment after what was done to them is undone.
func (r *runner) sameAs(t *testing.T, before map[string]string, within time.Duration) {
	t.Helper()
	var diff string
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		now, err := r.look(t.Context())
		if err != nil {
			diff = err.Error()
			continue
		}
		if diff = cmp.Diff(before, now); diff == "" {
			return
		}
	}
	t.Errorf("the cluster is not as it was before:\n%s", diff)
}
