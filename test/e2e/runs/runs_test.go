// Package runs holds whole runs against what is known to be true: a system that
// is well passes, one that was told to be wrong fails with the finding that
// names it, and what could not be measured is inconclusive. They need root or
// user namespaces, nft, and the programs in bin/ (make build).
package runs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/scenarios"
)

func catalogue(t *testing.T, name string) []byte {
	t.Helper()
	text, err := scenarios.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestE2ESteadyPasses(t *testing.T) {
	text := catalogue(t, "steady")
	times := 1
	if long() {
		times = 10
	}
	for i := range times {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			v := trial{text: text, seed: uint64(100 + i)}.judged(t).Verdict
			t.Logf("%s after %.0f s", v.Verdict, v.Seconds)
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
	result := trial{text: catalogue(t, "rollout-under-fire"), seed: 1}.judged(t)
	v := result.Verdict
	tell(t, v)
	if v.Verdict != checks.Pass {
		t.Errorf("it ends in %s, want pass:\n%s", v.Verdict, findings(v))
	}
	if n := v.Measures.Sessions.Unattributed; n != 0 {
		t.Errorf("%d losses are unexplained", n)
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
		if err := there(result.Folder, name); err != nil {
			t.Error(err)
		}
	}
	if there(result.Folder, "private") == nil {
		t.Error("identities are left in the run folder")
	}
}

func TestE2EWhatWasNotMeasuredIsInconclusive(t *testing.T) {
	for _, row := range []struct {
		why, want string
		set       []string
		during    func(context.Context, clusters.Cluster) error
	}{
		{"a fault that selects nothing", "nothing selected",
			[]string{`timeline[0]={name: hold, do: {nodeCordon: {select: {node: {name: node9}}}}}`}, nil},
		{"load below what was offered, by a generator without processor time", "schedule kept", []string{"validity.lateP99=50ms"}, throttled},
	} {
		t.Run(row.why, func(t *testing.T) {
			result, err := trial{text: planted, seed: 1, set: row.set, during: row.during}.conduct(t)
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

// throttled takes the processor time away from the generator, which is this process, while the load is held.
func throttled(ctx context.Context, _ clusters.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for ctx.Err() == nil { //nolint:revive // that it does nothing is the point
			}
		})
	}
	all.Wait()
	return nil
}
