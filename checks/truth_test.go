package checks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
)

// TestLedgerAgreesWithTheTruth: a simulation knows which sessions it dropped with which pod, which
// silently, and which recordings it lost; judging must find exactly those.
func TestLedgerAgreesWithTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := runtest.Config{Seed: rapid.Uint64().Draw(t, "seed"), Rate: rapid.Float64Range(1, 3).Draw(t, "rate"),
			Silent: rapid.IntRange(0, 4).Draw(t, "silent"), Missing: rapid.IntRange(0, 3).Draw(t, "missing")}
		events := runtest.RolloutUnderFire(c)
		byPod, silent, missing := map[string]int{}, 0, 0
		for _, e := range events {
			switch d := e.Data.(type) {
			case history.Session:
				switch d.Cut {
				case history.CutReset:
					byPod[d.Proxy.Name]++
				case history.CutEOF:
					silent++
				}
			case history.Recording:
				if d.Class == history.RecMissing {
					missing++
				}
			}
		}
		m := checks.Measure(runtest.Expect(), runtest.Source(events))
		got := map[string]int{}
		for _, g := range m.LossGroups() {
			if g.Found {
				got[g.Pod] += g.Count
			}
		}
		if diff := cmp.Diff(byPod, got); diff != "" {
			t.Fatalf("lost by pod (-truth +judged):\n%s", diff)
		}
		if m.All.Unattributed != silent || m.Recordings.Missing != missing {
			t.Fatalf("unattributed %d, missing %d; in truth %d and %d", m.All.Unattributed, m.Recordings.Missing, silent, missing)
		}
		want := checks.Pass
		if silent > 0 {
			want = checks.Fail
		}
		if v := checks.Judge(m, checks.Options{}); missing == 0 && v.Verdict != want {
			t.Fatalf("verdict %s, want %s: %q", v.Verdict, want, v.Reasons)
		}
	})
}
