package reports

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

// made is a report of a made-up run.
func made(t testing.TB, c runtest.Config, changes ...func([]history.Event)) Report {
	t.Helper()
	c.Seed = 42
	if c.Rate == 0 {
		c.Rate = 5
	}
	gs := c.Gates
	if gs == nil {
		gs = runtest.Gates()
	}
	events := runtest.RolloutUnderFire(c)
	for _, change := range changes {
		change(events)
	}
	m := checks.Measure(runtest.Expect(gs...), runtest.Source(events))
	r := New(m, checks.Judge(m, checks.Options{}))
	r.Folder, r.Page = "runs/20260301-020000-rollout", "runs/20260301-020000-rollout/report.html"
	return r
}

// busy leaves the generator no CPU, so that nothing it measured can be trusted.
func busy(events []history.Event) {
	for i, e := range events {
		if g, ok := e.Data.(history.Generator); ok {
			g.CPU = 0.99
			events[i].Data = g
		}
	}
}

// runs are the reports that have golden files: what a user meets first, what goes wrong, what is not known.
func runs(t testing.TB) map[string]Report {
	return map[string]Report{
		"pass":         made(t, runtest.Config{Standin: true}),
		"fail":         made(t, runtest.Config{Silent: 3, Missing: 2, Gates: append(runtest.Gates(), gates.Gate{Name: "few drops", Expr: "sessions.dropped <= 100"})}),
		"doubtful":     made(t, runtest.Config{Standin: true, Missing: 2, Gates: append(runtest.Gates(), gates.Gate{Name: "few drops", Expr: "sessions.dropped <= 100"})}, busy),
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
				if !strings.Contains(firstLines(b.String(), 3), "System under test") && f.Name != "json" {
					t.Errorf("the first lines do not say what was tested:\n%s", firstLines(b.String(), 3))
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

func firstLines(s string, n int) string {
	return strings.Join(strings.SplitN(s, "\n", n+1)[:n], "\n")
}

func TestTextIsAsWideAsATerminal(t *testing.T) {
	for name, r := range runs(t) {
		var b bytes.Buffer
		if err := Text(&b, r); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: colour for somebody who is no terminal", name)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if len([]rune(line)) > columns {
				t.Errorf("%s: wider than %d columns: %q", name, columns, line)
			}
		}
		var coloured bytes.Buffer
		r.Color = true
		if err := Text(&coloured, r); err != nil {
			t.Fatal(err)
		}
		if plain := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), ""); plain != b.String() {
			t.Errorf("%s: colour changes the text", name)
		}
	}
}

// TestJUnitCounts: a CI server reads the numbers of the suites; they must be those of the cases, and
// nothing inconclusive may count as passed or skipped.
func TestJUnitCounts(t *testing.T) {
	for name, want := range map[string][2]int{"pass": {0, 0}, "fail": {5, 0}, "inconclusive": {0, 1}} {
		r := runs(t)[name]
		var b bytes.Buffer
		if err := JUnit(&b, r); err != nil {
			t.Fatal(err)
		}
		var got junitSuites
		if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Failures != want[0] || got.Errors != want[1] {
			t.Errorf("%s: %d failures and %d errors, want %d and %d", name, got.Failures, got.Errors, want[0], want[1])
		}
		if strings.Contains(b.String(), "<skipped") {
			t.Errorf("%s: something is skipped", name)
		}
		if len(got.Suites[0].Cases) != len(r.Verdict.Gates) || len(got.Suites[1].Cases) != len(r.Verdict.Validity) {
			t.Errorf("%s: %d cases for %d gates, %d for %d conditions", name, len(got.Suites[0].Cases), len(r.Verdict.Gates), len(got.Suites[1].Cases), len(r.Verdict.Validity))
		}
	}
}

// TestMarkdownCannotBeBroken: text from a run neither ends a cell nor becomes markup.
func TestMarkdownCannotBeBroken(t *testing.T) {
	r := made(t, runtest.Config{})
	r.Verdict.Gates[0].Name, r.Verdict.Gates[0].Expr = "a | b\n<script>", "x || y `z`"
	r.Verdict.Reasons = []string{"[click](http://example.com) <img src=x>"}
	var b bytes.Buffer
	if err := Markdown(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<img", "[click](", "a | b"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q got through", bad)
		}
	}
}

// TestNotesAreTold: what passes and is worth telling stands in what people read, and is no reason.
func TestNotesAreTold(t *testing.T) {
	r := made(t, runtest.Config{Standin: true})
	r.Verdict.Findings = append(r.Verdict.Findings, checks.Finding{Check: "ready means serving", Outcome: checks.Pass, Note: true, Summary: "pod proxy-9 was ready 12.0 s before its first tunnel"})
	for _, f := range []Reporter{Text, Markdown, HTML} {
		var b bytes.Buffer
		if err := f(&b, r); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(strings.Fields(b.String()), " "), "proxy-9 was ready 12.0 s before its first tunnel"); n != 1 {
			t.Errorf("the note is told %d times", n)
		}
	}
}

// TestDoubtIsToldOnce: the text gives the reason of a doubt once, and every gate that it touches a mark.
func TestDoubtIsToldOnce(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, runs(t)["doubtful"]); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(strings.Fields(b.String()), " "), "not to be trusted, because this does not hold"); n != 1 {
		t.Errorf("the reason of the doubt is told %d times:\n%s", n, b.String())
	}
	if pass, fail := strings.Count(b.String(), "?✓ "), strings.Count(b.String(), "?✗ "); pass != 5 || fail != 2 {
		t.Errorf("%d gates are marked as holding by the numbers and %d as not, want 5 and 2:\n%s", pass, fail, b.String())
	}
}
