package checks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
	"shakedown.dev/shakedown/scenarios"
)

// TestCatalogue: every gate and condition of the scenarios we ship type-checks.
func TestCatalogue(t *testing.T) {
	files, err := filepath.Glob("../scenarios/catalogue/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no catalogue: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			s, err := scenarios.Read(f, scenarios.Options{Words: scenarios.Words(), Expr: ExprCheck})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Expect) == 0 {
				t.Error("a scenario that expects nothing")
			}
		})
	}
}

func TestExprCheck(t *testing.T) {
	n := scenarios.Names{Entries: []string{"warmup"}, Streams: []string{"terminals"}, Kinds: []string{"ssh"}}
	got := ExprCheck(scenarios.PlaceGate, `sessions.during("warmpu").dropped == 0`, n)
	want := []scenarios.ExprProblem{{Line: 1, Column: 17, Message: `unknown phase "warmpu"`, Nearest: "warmup"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if got := ExprCheck(scenarios.PlaceCondition, `rollout("proxy").updated >= 0.5`, n); len(got) != 0 {
		t.Errorf("a good condition has problems: %+v", got)
	}
	if got := ExprCheck(scenarios.PlaceCondition, `recordings.missing == 0`, n); len(got) != 1 {
		t.Errorf("a gate's words in a condition: %+v", got)
	}
}

func TestFromPlan(t *testing.T) {
	p := &scenarios.Plan{
		Streams: []scenarios.StreamPlan{{Stream: scenarios.Stream{Name: "terminals", Mix: []scenarios.Weighted{{Session: scenarios.Session{Kind: "ssh"}}}}}},
		Timeline: []scenarios.Step{
			{ID: "warmup", Name: "warmup", Wait: &scenarios.Wait{}},
			{ID: "up", Name: "up", Do: &scenarios.Do{Action: "helmUpgrade"}},
			{ID: "kill#1", Name: "kill", Do: &scenarios.Do{Action: "podDelete"}, Fault: true, OrElse: "skip"},
			{ID: "mend", Name: "mend", Do: &scenarios.Do{Action: "heal"}},
		},
		Gates: []scenarios.Gate{{Name: "g", That: "sessions.dropped == 0"}},
	}
	want := Expect{
		Gates:   []gates.Gate{{Name: "g", Expr: "sessions.dropped == 0"}},
		Names:   gates.Names{Components: []string{"auth", "proxy", "agent"}, Phases: []string{"warmup", "up", "kill", "mend"}, Streams: []string{"terminals"}, Kinds: []string{"ssh"}, Metrics: metrics.Names()},
		Entries: []PlannedEntry{{Name: "up", Action: "helmUpgrade", Rollout: true}, {Name: "kill", Action: "podDelete", OrElse: "skip"}},
	}
	if diff := cmp.Diff(want, FromPlan(p)); diff != "" {
		t.Errorf("expectations (-want +got):\n%s", diff)
	}
}

func TestMeasureFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := MeasureFolder(dir); err == nil || !strings.Contains(err.Error(), "plan.json") {
		t.Errorf("an empty folder: %v", err)
	}
	plan := fmt.Sprintf(`{"schema": %q, "gates": [{"name": "g", "that": "sessions.dropped == 16"}]}`, scenarios.PlanSchema)
	write(t, filepath.Join(dir, PlanFile), []byte(plan))
	if _, err := MeasureFolder(dir); err == nil || !strings.Contains(err.Error(), HistoryFile) {
		t.Errorf("a folder without history: %v", err)
	}
	write(t, filepath.Join(dir, HistoryFile), killed().lines(t))
	m, err := MeasureFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if v := Judge(m, Options{}); v.Verdict != Pass || len(v.Gates) != 1 {
		t.Errorf("verdict %s: %q", v.Verdict, v.Reasons)
	}
	half := killed().lines(t)
	write(t, filepath.Join(dir, HistoryFile), half[:len(half)/2])
	if m, err = MeasureFolder(dir); err != nil {
		t.Fatal(err)
	}
	if v := Judge(m, Options{}); v.Verdict != Inconclusive {
		t.Errorf("half a history: %s", v.Verdict)
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCutHistoriesNeverPass cuts a good run at any byte: no verdict but inconclusive may come out.
func TestCutHistoriesNeverPass(t *testing.T) {
	w := killed(gateOn("sessions.dropped == 0", "capacity.proxy.min >= 2"))
	whole := w.lines(t)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-2).Draw(t, "cut")
		m := Measure(w.expect, history.NewReader(strings.NewReader(string(whole[:at]))))
		if v := Judge(m, Options{}); v.Verdict != Inconclusive || len(v.Reasons) == 0 {
			t.Fatalf("cut at %d of %d: %s %q", at, len(whole), v.Verdict, v.Reasons)
		}
	})
}
