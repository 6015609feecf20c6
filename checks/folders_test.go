package checks_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
)

var update = flag.Bool("update", false, "write the verdicts of testdata/judged anew")

// TestOldRuns judges every run folder under testdata/judged again. A bug in a check becomes one more
// folder there: its plan.json and history.jsonl.zst, with the verdict that is right.
func TestOldRuns(t *testing.T) {
	dirs, err := filepath.Glob("testdata/judged/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no old runs: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m, err := checks.MeasureFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := checks.Judge(m, checks.Options{})
			if *update {
				if err := v.Write(dir); err != nil {
					t.Fatal(err)
				}
			}
			got, err := v.JSON()
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(dir, checks.VerdictFile))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("verdict (-want +got); run with -update if the new one is right:\n%s", diff)
			}
		})
	}
}

// TestMadeUpFolder: what runtest writes can be judged, so that others can test with it.
func TestMadeUpFolder(t *testing.T) {
	dir := t.TempDir()
	if err := runtest.WriteFolder(dir, runtest.Config{Seed: 3, Rate: 2, Standin: true}); err != nil {
		t.Fatal(err)
	}
	m, err := checks.MeasureFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if v := checks.Judge(m, checks.Options{}); v.Verdict != checks.Pass {
		t.Errorf("verdict %s: %q", v.Verdict, v.Reasons)
	}
}
