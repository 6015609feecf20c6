package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// failedRun is a folder of a run with four faults that failed by one gate.
func failedRun(t *testing.T, verdict checks.Verdict) string {
	t.Helper()
	dir := t.TempDir()
	plan := scenarios.Plan{Schema: scenarios.PlanSchema, Seed: 7, Scenario: "x"}
	for _, id := range []string{"kill", "drain", "cut", "storm"} {
		plan.Timeline = append(plan.Timeline, scenarios.Step{ID: id, Fault: true, Needs: []scenarios.Need{{Point: scenarios.Started}}, Do: &scenarios.Do{Action: "podDelete"}})
	}
	for name, value := range map[string]any{checks.PlanFile: plan, envFile: run.Env{Provider: "embedded"}, scenarioFile: "", checks.VerdictFile: verdict} {
		data, err := json.Marshal(value)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func judged(outcome checks.Outcome, failing ...string) checks.Verdict {
	v := checks.Verdict{Schema: checks.Schema, Verdict: outcome}
	for _, g := range failing {
		v.Gates = append(v.Gates, gates.Result{Name: g, Outcome: checks.Fail})
	}
	return v
}

// TestShrinkRuns drives the verb with runs that are made up: they fail when two of the four faults come.
func TestShrinkRuns(t *testing.T) {
	for _, row := range []struct {
		why   string
		tries int
		runs  func(n int, faults []string) checks.Verdict // of the n-th run, from 1
		left  []string
		runsN int
		code  exit.Code
	}{
		{"two of four faults together", 1, func(_ int, faults []string) checks.Verdict {
			if slices.Contains(faults, "kill") && slices.Contains(faults, "cut") {
				return judged(checks.Fail, "nothing dropped")
			}
			return judged(checks.Pass)
		}, []string{"kill", "cut"}, 8, exit.Pass},
		{"what fails by another gate is another failure", 1, func(int, []string) checks.Verdict { return judged(checks.Fail, "opens stay quick") },
			[]string{"kill", "drain", "cut", "storm"}, 1, exit.Inconclusive},
		{"an inconclusive run did not fail", 2, func(int, []string) checks.Verdict { return judged(checks.Inconclusive) },
			[]string{"kill", "drain", "cut", "storm"}, 2, exit.Inconclusive},
		{"what fails every other time is found with two tries", 2, func(n int, faults []string) checks.Verdict {
			if n%2 == 0 && slices.Contains(faults, "storm") {
				return judged(checks.Fail, "nothing dropped")
			}
			return judged(checks.Pass)
		}, []string{"storm"}, 12, exit.Pass},
	} {
		t.Run(row.why, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			s := &shrinking{running: running{planning: planning{app: &app{Streams: Streams{Out: out, Err: out}, output: "json"}}, keep: "never"}, tries: row.tries}
			n := 0
			s.perform = func(_ context.Context, o run.Options) (run.Result, error) {
				n++
				var faults []string
				for _, step := range o.Plan.Timeline {
					faults = append(faults, step.ID)
				}
				return run.Result{Folder: strings.Join(faults, "+"), Verdict: row.runs(n, faults)}, nil
			}
			err = s.do(t.Context(), failedRun(t, judged(checks.Fail, "nothing dropped")))
			if code := exit.CodeOf(err); err != nil && code != row.code || (err == nil) != (row.code == exit.Pass) {
				t.Errorf("%v (%d), want %d", err, code, row.code)
			}
			text, _ := os.ReadFile(out.Name())
			var got shrunk
			if err := json.Unmarshal(text[strings.Index(string(text), "{\n"):], &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if diff := cmp.Diff(row.left, got.Left); diff != "" || n != row.runsN {
				t.Errorf("%d runs, want %d: %s\n%s", n, row.runsN, diff, text)
			}
			if want := strings.Join(row.left, "+"); row.code == exit.Pass && got.Folder != want {
				t.Errorf("the folder is %s, want %s", got.Folder, want)
			}
		})
	}
}

func TestShrinkWantsAFailure(t *testing.T) {
	s := &shrinking{running: running{planning: planning{app: &app{Streams: Streams{Err: os.Stderr}}}}, tries: 1}
	s.perform = func(context.Context, run.Options) (run.Result, error) { return run.Result{}, errors.New("was run") }
	err := s.do(t.Context(), failedRun(t, judged(checks.Inconclusive, "x")))
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "did not fail (inconclusive)") {
		t.Errorf("got %v", err)
	}
}
