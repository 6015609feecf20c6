package reports

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/compare"
	"shakedown.dev/shakedown/checks/runtest"
)

// sides are sets of judged runs, of which those of B open twice as many sessions.
func sides(t *testing.T, n int) (a, b []checks.Verdict) {
	for i := range uint64(n) {
		for rate, to := range map[float64]*[]checks.Verdict{3: &a, 6: &b} {
			m := checks.Measure(runtest.Expect(), runtest.Source(runtest.RolloutUnderFire(runtest.Config{Seed: 10*i + uint64(rate), Rate: rate})))
			*to = append(*to, checks.Judge(m, checks.Options{}))
		}
	}
	return a, b
}

func TestComparisonGolden(t *testing.T) {
	for n, name := range map[int]string{2: "compare-few", 7: "compare"} {
		a, b := sides(t, n)
		r := compare.Verdicts(a, b, 1)
		for _, format := range []string{"text", "markdown"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				report, err := ComparisonByName(format)
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if err := report(&out, r); err != nil {
					t.Fatal(err)
				}
				for _, line := range strings.Split(out.String(), "\n") {
					if format == "text" && len([]rune(line)) > columns {
						t.Errorf("wider than %d columns: %q", columns, line)
					}
				}
				path := filepath.Join("testdata", name+"."+format)
				if *update {
					if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), out.String()); diff != "" {
					t.Errorf("%s (-want +got); run with -update if it is meant:\n%s", path, diff)
				}
			})
		}
	}
}

func TestFewRunsClaimNothing(t *testing.T) {
	a, b := sides(t, 2)
	var out bytes.Buffer
	if err := ComparisonText(&out, compare.Verdicts(a, b, 1)); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"WORSE", "BETTER", "none shown", "same"} {
		if strings.Contains(out.String(), claim) {
			t.Errorf("two runs against two claim %q:\n%s", claim, out.String())
		}
	}
	if !strings.Contains(out.String(), "Not enough runs") {
		t.Errorf("does not say that there are not enough runs:\n%s", out.String())
	}
}

func TestUnknownFormats(t *testing.T) {
	if _, err := ByName("pdf"); err == nil || !strings.Contains(err.Error(), "text, json, junit, markdown, html, sonobuoy") {
		t.Errorf("error %v", err)
	}
	if _, err := ComparisonByName("html"); err == nil {
		t.Error("no error")
	}
}
