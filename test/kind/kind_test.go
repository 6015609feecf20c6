// Package kind tries the provider kind on a real Docker engine, with the programs in bin/. `make test-kind` runs it,
// and says why not where there is no engine or no node image.
package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const program = "../../bin/shakedown"

// flags are those that the node image and the machine need, from the environment of make test-kind.
func flags() []string {
	out := []string{"--cluster", "kind"}
	if image := os.Getenv("SHAKEDOWN_NODE_IMAGE"); image != "" {
		out = append(out, "--node-image", image)
	}
	if config := os.Getenv("SHAKEDOWN_KIND_CONFIG"); config != "" {
		out = append(out, "--kind-config", config)
	}
	return out
}

func needsKind(t *testing.T) {
	t.Helper()
	if os.Getenv("SHAKEDOWN_TEST_KIND") == "" {
		t.Skip("make test-kind runs it")
	}
}

// shakedown runs the program and gives what it said and its exit status.
func shakedown(ctx context.Context, t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Minute
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), failed.ExitCode()
	}
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	out, code := shakedown(t.Context(), t, args...)
	if code != 0 {
		t.Fatalf("shakedown %s: exit status %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// things are what a cluster may leave behind.
func things(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for what, cmd := range map[string][]string{
		"container": {"docker", "ps", "--all", "--format", "{{.Names}}"}, "network": {"docker", "network", "ls", "--format", "{{.Name}}"},
		"volume": {"docker", "volume", "ls", "--quiet"}, "route": {"ip", "route", "show"},
	} {
		text, err := exec.Command(cmd[0], cmd[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		out[what] = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "shakedown-*"))
	if err != nil {
		t.Fatal(err)
	}
	out["file"] = files
	return out
}

// nothingLeft compares what there is now with what there was. Routes of a bridge that is going take a moment.
func nothingLeft(t *testing.T, before map[string][]string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		left = nil
		for what, now := range things(t) {
			for _, x := range now {
				if !slices.Contains(before[what], x) {
					left = append(left, what+" "+x)
				}
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: %s", strings.Join(left, "; "))
			return
		}
	}
}

// TestKindRuns has the same scenarios as the embedded cluster come to the same verdict.
func TestKindRuns(t *testing.T) {
	needsKind(t)
	for _, scenario := range []string{"steady", "rollout-under-fire"} {
		t.Run(scenario, func(t *testing.T) {
			before := things(t)
			// One more try for a machine that was too busy to measure: that is told by exit status 2, with the reason.
			for try := 1; ; try++ {
				began := time.Now()
				out, code := shakedown(t.Context(), t, append([]string{"run", scenario, "--seed", "1", "--progress", "plain", "--out", t.TempDir()}, flags()...)...)
				t.Logf("%s in %s\n%s", scenario, time.Since(began).Round(time.Second), out)
				nothingLeft(t, before)
				if code == 0 {
					return
				}
				if code != 2 || try == 2 {
					t.Fatalf("exit status %d, want 0", code)
				}
			}
		})
	}
}

// TestKindCluster walks through the verbs, with all that is done to nodes.
func TestKindCluster(t *testing.T) {
	needsKind(t)
	before := things(t)
	name := fmt.Sprintf("walk-%d", os.Getpid())
	took := must(t, append([]string{"cluster", "up", "--name", name, "--nodes", "2", "--node-monitor-grace", "8s", "--progress", "plain"}, flags()...)...)
	t.Log(took)
	t.Cleanup(func() {
		out, code := shakedown(context.Background(), t, "cluster", "down", "--cluster", "kind", "--name", name)
		if code != 0 {
			t.Errorf("down: %s", out)
		}
		nothingLeft(t, before)
	})
	if _, code := shakedown(t.Context(), t, append([]string{"cluster", "up", "--name", name, "--nodes", "3"}, flags()...)...); code != 64 {
		t.Errorf("another shape: exit status %d, want 64", code)
	}
	facts := listed(t, name)
	if len(facts.Nodes) != 3 || facts.Provider != "kind" || facts.DNS == "" {
		t.Fatalf("%+v", facts)
	}
	// A Service by its name, and the API by its address, from the cluster's own network.
	must(t, "cluster", "shell", "--name", name, "--", "sh", "-c", "curl -sk --max-time 5 https://kubernetes.default.svc/version | grep gitVersion")
	worker := name + "-worker"
	for _, step := range []struct {
		action, state string
		ready         bool
	}{{"pause", "paused", false}, {"resume", "running", true}, {"partition", "partitioned", false}, {"heal", "running", true}, {"kill", "killed", false}, {"restart", "running", true}} {
		must(t, "cluster", "node", worker, step.action, "--name", name)
		if got := state(listed(t, name), worker); got != step.state {
			t.Errorf("after %s the node is %q, want %q", step.action, got, step.state)
		}
		awaitReady(t, name, worker, step.ready)
	}
}

// facts are what cluster list -o json says.
type facts struct {
	Name, Provider, DNS string
	Nodes               []struct{ Name, Address, State string }
}

func listed(t *testing.T, name string) facts {
	t.Helper()
	var all []facts
	if err := json.Unmarshal([]byte(output(t, program, "cluster", "list", "--cluster", "kind", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("cluster %s is not listed", name)
	return facts{}
}

func state(f facts, node string) string {
	for _, n := range f.Nodes {
		if n.Name == node {
			return n.State
		}
	}
	return ""
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(out)
}

func awaitReady(t *testing.T, name, node string, want bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got, err := exec.Command("docker", "exec", name+"-control-plane", "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "get", "node", node,
			"-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`).Output()
		if err == nil && (string(got) == "True") == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("node %s: Ready is %q (%v), want %t", node, got, err, want)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestKindIsCleanedUp interrupts and kills runs, and sees what is left after what a user would then do.
func TestKindIsCleanedUp(t *testing.T) {
	needsKind(t)
	for _, row := range []struct {
		why    string
		after  string // a line of the run's progress
		signal os.Signal
		heal   bool
	}{
		{"Ctrl-C while the cluster comes up", "Bringing up cluster", os.Interrupt, false},
		{"Ctrl-C while it is installed", "Installing", os.Interrupt, false},
		{"kill -9 while it is installed, then heal", "Installing", syscall.SIGKILL, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			before := things(t)
			dir := t.TempDir()
			cmd := exec.Command(program, append([]string{"run", "steady", "--progress", "plain", "--out", dir}, flags()...)...)
			said := &watched{want: row.after, seen: make(chan struct{})}
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-said.seen:
			case err := <-ended:
				t.Fatalf("it ended (%v) before it said %q:\n%s", err, row.after, said.said.String())
			}
			time.Sleep(3 * time.Second) // into the middle of it
			if err := cmd.Process.Signal(row.signal); err != nil {
				t.Fatal(err)
			}
			<-ended // how is not the question
			if row.heal {
				runs, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil || len(runs) != 1 {
					t.Fatalf("%v, %v", runs, err)
				}
				t.Log(must(t, "heal", runs[0]))
			}
			nothingLeft(t, before)
			if t.Failed() {
				t.Log(said.said.String())
			}
		})
	}
}

// watched is an output that tells when a word has come.
type watched struct {
	said bytes.Buffer // embedded, it would be filled past Write
	want string
	seen chan struct{}
	done bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.said.Write(p)
	if !w.done && strings.Contains(w.said.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return n, err
}
