// Package runs holds whole runs against what is known to be true: a system that
// is well passes, one that was told to be wrong fails with the finding that
// names it, and what could not be measured is inconclusive. They need root or
// user namespaces, nft, and the programs in bin/ (make build).
package runs

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

//go:embed planted.yaml
var planted []byte

// longEnv asks for all planted faults and ten steady runs; without it a few of
// each kind are tried.
const longEnv = "SHAKEDOWN_LONG"

func long() bool { return os.Getenv(longEnv) != "" }

// program finds one of the programs that make build made.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v (make build)", err)
	}
	return path
}

// conduct runs a scenario and returns what came of it.
func conduct(t *testing.T, text []byte, seed uint64, set ...string) (run.Result, error) {
	t.Helper()
	s, err := scenarios.Decode("scenario.yaml", text, run.DecodeOptions(set))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	result, err := run.Run(ctx, run.Options{
		Scenario: s, Text: text, Seed: seed, ProviderName: "embedded", Tool: "test",
		Provider: &embedded.Provider{Kubelite: program(t, "kubelite")}, Standin: program(t, "standin"),
		Out: t.TempDir(),
		Progress: func(s clusters.Step) {
			if s.State == clusters.StepFailed {
				t.Logf("%s: %s", s.Name, s.Detail)
			}
		},
	})
	if list, lerr := (&embedded.Provider{}).List(t.Context()); lerr == nil {
		for _, c := range list {
			if strings.HasPrefix(c.Name(), "run-") && strings.HasSuffix(result.Folder, c.Name()[len("run-"):]) {
				t.Errorf("cluster %s is left", c.Name())
			}
		}
	}
	return result, err
}

// conclusive runs a scenario until it can be judged: a machine that is shared
// may be too busy to measure on, which the harness is right to call
// inconclusive. Three times in a row skips the test, which is no pass either.
func conclusive(t *testing.T, text []byte, seed uint64, set ...string) run.Result {
	t.Helper()
	for range 3 {
		result, err := conduct(t, text, seed, set...)
		if err != nil {
			t.Fatal(err)
		}
		if result.Verdict.Verdict != checks.Inconclusive {
			return result
		}
		tell(t, result.Verdict)
	}
	t.Skip("three runs in a row were inconclusive: this machine is too busy to measure on")
	return run.Result{}
}

// tell prints the verdict where a test fails: the reasons are what a reader
// asks for.
func tell(t *testing.T, v checks.Verdict) {
	t.Helper()
	t.Logf("verdict %s\n  %s", v.Verdict, strings.Join(v.Reasons, "\n  "))
	t.Logf("sessions %+v", v.Measures.Sessions)
	t.Logf("recordings %+v", v.Measures.Recordings)
}

func TestE2ESteadyPasses(t *testing.T) {
	text, err := scenarios.Text("steady")
	if err != nil {
		t.Fatal(err)
	}
	times := 1
	if long() {
		times = 10
	}
	for i := range times {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			v := conclusive(t, text, uint64(100+i)).Verdict
			if v.Verdict != checks.Pass || v.Measures.Sessions.Dropped+v.Measures.Sessions.Unattributed+v.Measures.Recordings.Missing != 0 {
				tell(t, v)
				t.Fatal("a system that is well did not pass")
			}
			if v.Measures.Sessions.Opened < 50 || v.Measures.Recordings.Complete != v.Measures.Sessions.Opened {
				tell(t, v)
				t.Error("it passed without looking at its sessions")
			}
		})
	}
}

func TestE2ERolloutUnderFire(t *testing.T) {
	text, err := scenarios.Text("rollout-under-fire")
	if err != nil {
		t.Fatal(err)
	}
	// A loss that nothing explains is a mistake of ours when it comes again.
	result := conclusive(t, text, 1)
	if n := result.Verdict.Measures.Sessions.Unattributed; n != 0 {
		tell(t, result.Verdict)
		result = conclusive(t, text, 2)
	}
	v := result.Verdict
	tell(t, v)
	if v.Measures.Sessions.Unattributed != 0 {
		t.Errorf("%d losses are unexplained", v.Measures.Sessions.Unattributed)
	}
	if v.Measures.Sessions.Dropped == 0 {
		t.Error("two proxies were taken away under their sessions, and none dropped")
	}
	if len(v.Faults) != 2 {
		t.Fatalf("faults %+v, want kill and drain", v.Faults)
	}
	for _, f := range v.Faults {
		if !f.Bit || !f.Healed || f.Proof == "" || f.HealProof == "" {
			t.Errorf("fault %s: %+v", f.Name, f)
		}
	}
	if v.Measures.Recordings.Expected != v.Measures.Sessions.Opened {
		t.Errorf("%d sessions were opened, %d recordings looked for", v.Measures.Sessions.Opened, v.Measures.Recordings.Expected)
	}
	for _, name := range []string{"scenario.yaml", "plan.json", "env.json", "history.jsonl.zst", "undo.jsonl", "verdict.json", "report.html", "junit.xml", "summary.md", "logs/pods.json"} {
		if _, err := os.Stat(filepath.Join(result.Folder, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(result.Folder, "private")); err == nil {
		t.Error("identities are left in the run folder")
	}
}

// wrong is one planted fault and what the harness must say of it.
type wrong struct {
	fault string
	found func(checks.Verdict) int // how many sessions or recordings were found to be hit
	quick bool                     // tried by make test too
}

func sessionsOf(class string) func(checks.Verdict) int {
	return func(v checks.Verdict) int {
		s := v.Measures.Sessions
		return map[string]int{"dropped": s.Dropped, "refused": s.Refused, "stalled": s.Stalled, "lost": s.Dropped + s.Stalled}[class]
	}
}

func recordingsOf(class string) func(checks.Verdict) int {
	return func(v checks.Verdict) int {
		r := v.Measures.Recordings
		return map[string]int{"missing": r.Missing, "truncated": r.Truncated, "gap": r.Gap, "noEnd": r.NoEnd, "late": r.Late}[class]
	}
}

func TestE2EPlantedFaultsAreFound(t *testing.T) {
	for _, w := range []wrong{
		{"drop-silently:every=5,after=1s", sessionsOf("dropped"), true},
		{"half-open:every=5,after=1s", sessionsOf("lost"), false},
		{"stall:every=5,after=1s,for=30s", sessionsOf("lost"), false},
		{"refuse-share:every=5", sessionsOf("refused"), false},
		{"lose-recording:every=5", recordingsOf("missing"), true},
		{"truncate-recording:every=5", recordingsOf("truncated"), false},
		{"gap-recording:every=5", recordingsOf("gap"), false},
		{"forget-end-event:every=5", recordingsOf("noEnd"), false},
		{"late-upload:every=5,for=8s", recordingsOf("late"), false},
	} {
		name, _, _ := strings.Cut(w.fault, ":")
		t.Run(name, func(t *testing.T) {
			if !w.quick && !long() {
				t.Skip(longEnv + " is not set: only some of the planted faults are tried")
			}
			v := conclusive(t, planted, 1, "teleport.from.values.standin.faults="+w.fault).Verdict
			if v.Verdict != checks.Fail || w.found(v) == 0 {
				tell(t, v)
				t.Fatalf("%s was planted and not found", name)
			}
		})
	}
}

func TestE2EWhatWasNotMeasuredIsInconclusive(t *testing.T) {
	for _, row := range []struct {
		why, want string
		set       []string
	}{
		{"a fault that selects nothing", "nothing selected",
			[]string{`timeline[0]={name: hold, do: {nodeCordon: {select: {node: {name: node9}}}}}`}},
		{"load below what was offered", "schedule kept", []string{"load[terminals].arrival.open.rate=300/s", "load[terminals].arrival.maxHeld=20000"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			result, err := conduct(t, planted, 1, row.set...)
			if err != nil {
				t.Fatal(err)
			}
			v := result.Verdict
			if v.Verdict != checks.Inconclusive || !strings.Contains(strings.Join(v.Reasons, "\n"), row.want) {
				tell(t, v)
				t.Errorf("%s: want inconclusive, with the reason %q", row.why, row.want)
			}
		})
	}
}
