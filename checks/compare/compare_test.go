package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
)

// run is a valid run in which so many of 1000 sessions were dropped and opening took so long.
func run(name string, dropped int, p99 float64) checks.Verdict {
	v := checks.Verdict{Run: name, Scenario: "s", Verdict: checks.Pass, Validity: []checks.Validity{{Name: "history complete", OK: true}}}
	v.Measures.Sessions = gates.Sessions{Opened: 1000, Dropped: dropped}
	v.Measures.Latency = map[string]map[string]checks.LatencyRow{"ssh": {checks.WholeRun: {P50Ms: 50, P99Ms: p99}}}
	return v
}

func runs(n, dropped int, p99 float64, seed uint64) (out []checks.Verdict) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		out = append(out, run(fmt.Sprintf("r%d", i), dropped+rng.IntN(10), p99*(1+0.02*rng.Float64())))
	}
	return out
}

func row(t *testing.T, r Result, name string) Row {
	t.Helper()
	for _, x := range r.Rows {
		if x.Measure == name {
			return x
		}
	}
	t.Fatalf("no row %q", name)
	return Row{}
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		says    string
		a, b    []checks.Verdict
		measure string
		want    Change
	}{
		{"ten runs against ten that drop thrice as many", runs(10, 100, 80, 1), runs(10, 300, 80, 2), "sessions dropped", Worse},
		{"the other way round", runs(10, 300, 80, 1), runs(10, 100, 80, 2), "sessions dropped", Better},
		{"ten of the same kind", runs(10, 100, 80, 1), runs(10, 100, 80, 2), "sessions dropped", NotShown},
		{"latency that is up by half", runs(10, 100, 80, 1), runs(10, 100, 120, 2), "opening of ssh, p99", Worse},
		{"a measure that never varies", runs(10, 100, 80, 1), runs(10, 100, 80, 2), "opening of ssh, p50", Same},
		{"one run against one, however far apart", runs(1, 0, 80, 1), runs(1, 900, 80, 2), "sessions dropped", TooFew},
		{"four against four, with so many measures", runs(4, 0, 80, 1), runs(4, 900, 80, 2), "sessions opened", TooFew},
		{"three against three, however far apart", runs(3, 0, 80, 1), runs(3, 900, 80, 2), "sessions dropped", TooFew},
	} {
		t.Run(tt.says, func(t *testing.T) {
			r := Verdicts(tt.a, tt.b, 1)
			got := row(t, r, tt.measure)
			if got.Change != tt.want {
				t.Errorf("%s, want %s: %+v", got.Change, tt.want, got)
			}
			if (got.P == nil) != (tt.want == TooFew || tt.want == Same) {
				t.Errorf("p-value where there is no test, or none where there is: %+v", got)
			}
			if r.Worse() != (tt.want == Worse) {
				t.Errorf("worse %t", r.Worse())
			}
		})
	}
}

func TestInvalidRunsAreLeftOut(t *testing.T) {
	a := runs(3, 100, 80, 1)
	b := runs(5, 100, 80, 2)
	b[1].Validity[0].OK = false
	b[2].Verdict = checks.Error
	r := Verdicts(a, b, 1)
	if r.B.Runs != 3 || len(r.B.LeftOut) != 2 || !strings.Contains(r.B.LeftOut[0], "history complete does not hold") {
		t.Errorf("%+v", r.B)
	}
	if got := row(t, r, "sessions dropped"); got.Change != TooFew {
		t.Errorf("three runs are left: %+v", got)
	}
}

func TestWarnings(t *testing.T) {
	a, b := runs(4, 1, 1, 1), runs(4, 1, 1, 2)
	for i := range b {
		b[i].SUT.Standin = true
	}
	if w := Verdicts(a, b, 1).Warnings; len(w) != 1 || !strings.Contains(w[0], "stand-in") {
		t.Errorf("warnings %q", w)
	}
}

func TestRunsNeeded(t *testing.T) {
	// Two-sided and exact: 2/(2n over n) is 0.1, 0.029, 0.0079, 0.0022 for three to six runs on each side.
	for measures, want := range map[int]int{1: 4, 2: 5, 6: 5, 7: 6, 20: 6, 30: 7} {
		if got := runsNeeded(measures); got != want {
			t.Errorf("%d measures: %d runs, want %d", measures, got, want)
		}
	}
}

// TestFalseAlarms: of many comparisons of like with like, hardly more than one in twenty finds anything.
func TestFalseAlarms(t *testing.T) {
	alarms := 0
	const tries = 200
	for i := range uint64(tries) {
		r := Verdicts(runs(6, 100, 80, 2*i), runs(6, 100, 80, 2*i+1), i)
		for _, x := range r.Rows {
			if x.Change == Worse || x.Change == Better || x.Change == Different {
				alarms++
				break
			}
		}
	}
	if alarms > tries/10 {
		t.Errorf("%d of %d comparisons of like with like found a difference", alarms, tries)
	}
}

func TestBootstrapCoversTheDifference(t *testing.T) {
	r := row(t, Verdicts(runs(12, 100, 80, 1), runs(12, 300, 80, 2), 1), "sessions dropped")
	if *r.Low > 20 || *r.High < 20 || math.Abs(*r.High-*r.Low) > 2 {
		t.Errorf("interval %g to %g, want a narrow one around 20", *r.Low, *r.High)
	}
	again := row(t, Verdicts(runs(12, 100, 80, 1), runs(12, 300, 80, 2), 1), "sessions dropped")
	if *again.Low != *r.Low || *again.High != *r.High {
		t.Error("the same seed gives another interval")
	}
}
