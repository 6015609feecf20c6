package kind

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
)

// verdictIn is the verdict of the one run in a folder.
func verdictIn(t *testing.T, dir string) (v checks.Verdict) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", checks.VerdictFile))
	if err != nil || len(files) != 1 {
		t.Fatalf("verdicts %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestKindFaults has each fault that works beside the containers bite and heal, by their own proofs.
func TestKindFaults(t *testing.T) {
	needsKind(t)
	before, dir := things(t), t.TempDir()
	out, code := shakedown(t.Context(), t, append([]string{"run", "faults.yaml", "--seed", "1", "--progress", "plain", "--out", dir}, flags()...)...)
	t.Log(out)
	nothingLeft(t, before)
	v := verdictIn(t, dir)
	if len(v.Faults) != 14 {
		t.Errorf("%d faults, want the 14 of the scenario", len(v.Faults))
	}
	for _, f := range v.Faults {
		t.Logf("%s: %s; healed: %s", f.Name, f.Proof, f.HealProof)
		if !f.Bit || !f.Healed || f.Proof == "" || f.HealProof == "" {
			t.Errorf("fault %s did not bite and heal: %+v", f.Name, f)
		}
	}
	// A machine that was too busy to measure says so by 2; what is asked here was seen all the same.
	if code != 0 && code != 2 || v.Measures.Sessions.Unattributed > 0 {
		t.Errorf("exit status %d, %d losses without a cause:\n%s", code, v.Measures.Sessions.Unattributed, strings.Join(v.Reasons, "\n"))
	}
}
