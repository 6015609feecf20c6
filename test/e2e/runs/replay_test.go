package runs

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/history"
)

// drawn leaves to the seed what is broken, when, and in which order.
const drawn = `timeline=[{name: hold, wait: 4s}, {name: chaos, random: {faults: [` +
	`{podDelete: {select: {component: proxy, count: 1}, gracePeriod: 0s}}, {containerSignal: {select: {component: agent, count: 1}, signal: TERM}}, ` +
	`{podDelete: {select: {component: agent, share: 50%}}}], every: {exponential: {mean: 4s, min: 2s}}, for: 14s}}, {name: tail, wait: 4s}]`

// decided is what a run decided, as its history has it.
type decided struct {
	Faults   []fault
	Sessions map[string]session
}

type fault struct {
	ID, Name, Selector string
	Params             map[string]string
	Why                []string // of each target: which of how many
}

type session struct {
	Behaviour, User string
	After           time.Duration // when it was due, after the first
}

// decisions reads them out of a run folder. What began only in the last seconds of a run may not be in the other.
func decisions(t *testing.T, folder string) decided {
	t.Helper()
	events, status, err := history.ReadFile(filepath.Join(folder, checks.HistoryFile))
	if err != nil || !status.Whole() {
		t.Fatalf("%s: %+v, %v", folder, status, err)
	}
	out := decided{Sessions: map[string]session{}}
	first := time.Duration(math.MaxInt64)
	for _, e := range events {
		switch d := e.Data.(type) {
		case history.Fault:
			if d.Stage != history.FaultInject {
				continue
			}
			f := fault{ID: d.ID, Name: d.Name, Selector: d.Selector, Params: d.Params}
			for _, target := range d.Targets {
				f.Why = append(f.Why, target.Why)
			}
			out.Faults = append(out.Faults, f)
		case history.Session:
			first = min(first, d.Due)
			out.Sessions[d.ID] = session{d.Behaviour, d.User, d.Due}
		}
	}
	for id, s := range out.Sessions {
		if s.After -= first; s.After > 15*time.Second {
			delete(out.Sessions, id)
			continue
		}
		out.Sessions[id] = s
	}
	return out
}

// TestE2EReplayDecidesTheSame runs what a seed drew, and repeats the run from its folder on a cluster of its own.
func TestE2EReplayDecidesTheSame(t *testing.T) {
	onlyLong(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "scenario.yaml")
	if err := os.WriteFile(file, planted, 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, "kubelite")
	program(t, "standin")
	first := runs(t, filepath.Join(dir, "first"), file, "--set", drawn, "--set", "limits.pods=20", "--seed", "7")
	second := runs(t, filepath.Join(dir, "second"), "--replay", first)
	for _, name := range []string{checks.PlanFile, "scenario.yaml"} {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("%s differs:\n%s", name, diff)
		}
	}
	a, b := decisions(t, first), decisions(t, second)
	if len(a.Faults) < 2 || len(a.Sessions) < 50 {
		t.Fatalf("%d faults and %d sessions are too few to compare", len(a.Faults), len(a.Sessions))
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("what was decided differs:\n%s", diff)
	}
	t.Logf("%d faults and %d sessions decided the same twice", len(a.Faults), len(a.Sessions))
}

// runs carries a run out by the command line, whatever its verdict, and gives its folder.
func runs(t *testing.T, out string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, program(t, "shakedown"), append([]string{"run", "--out", out, "--progress", "plain"}, args...)...).CombinedOutput()
	folders, _ := filepath.Glob(filepath.Join(out, "*", checks.VerdictFile))
	if len(folders) != 1 {
		t.Fatalf("%d run folders with a verdict: %v\n%s", len(folders), err, said)
	}
	return filepath.Dir(folders[0])
}
