package reports

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/checks/runtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// made is a report of a made-up run.
func made(t testing.TB, c runtest.Config) Report {
	t.Helper()
	c.Seed = 42
	if c.Rate == 0 {
		c.Rate = 5
	}
	gs := c.Gates
	if gs == nil {
		gs = runtest.Gates()
	}
	m := checks.Measure(runtest.Expect(gs...), runtest.Source(runtest.RolloutUnderFire(c)))
	r := New(m, checks.Judge(m, checks.Options{}))
	r.Folder, r.Page = "runs/20260301-020000-rollout", "runs/20260301-020000-rollout/report.html"
	return r
}

// runs are the reports that have golden files: what a user meets first, what goes wrong, what is not known.
func runs(t testing.TB) map[string]Report {
	return map[string]Report{
		"pass":         made(t, runtest.Config{Standin: true}),
		"fail":         made(t, runtest.Config{Silent: 3, Missing: 2, Gates: append(runtest.Gates(), gates.Gate{Name: "few drops", Expr: "sessions.dropped <= 100"})}),
		"inconclusive": made(t, runtest.Config{Standin: true, Gates: append(runtest.Gates(), gates.Gate{Name: "never |reached|", Expr: `sessions.after("recovery", duration("10m")).dropped == 0`})}),
	}
}

func TestGolden(t *testing.T) {
	for name, r := range runs(t) {
		for _, f := range Formats() {
			if f.Name == "html" {
				continue // looked at by TestHTML; a golden page would only say that it changed
			}
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				var b bytes.Buffer
				if err := f.Report(&b, r); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join("testdata", name+"."+f.Name)
				if *update {
					if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), b.String()); diff != "" {
					t.Errorf("%s (-want +got); run with -update if it is meant:\n%s", path, diff)
				}
			})
		}
	}
}
