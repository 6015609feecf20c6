package reports

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
)

var pages = flag.String("pages", "", "write the HTML pages of the test's runs into this directory, to look at")

func render(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTMLTellsWhatTheVerdictTells(t *testing.T) {
	for name, r := range runs(t) {
		t.Run(name, func(t *testing.T) {
			page := render(t, r)
			if *pages != "" {
				if err := os.WriteFile(filepath.Join(*pages, name+".html"), []byte(page), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []string{r.Verdict.Scenario, r.Verdict.Verdict.String(), "evicted at 1m24s by fault drain"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			if got := strings.Contains(page, "the STAND-IN, not Teleport"); got != r.Verdict.SUT.Standin {
				t.Errorf("names the stand-in: %t, the system under test was it: %t", got, r.Verdict.SUT.Standin)
			}
			if n := strings.Count(page, "<tr"); n < r.LostTotal {
				t.Errorf("%d rows for %d lost sessions", n, r.LostTotal)
			}
		})
	}
}

// TestHTMLRefersToNothingOutside: what a browser would fetch is named by these attributes and functions.
func TestHTMLRefersToNothingOutside(t *testing.T) {
	page := render(t, made(t, runtest.Config{}))
	for _, pattern := range []string{`(?i)\b(src|href|srcset|action|poster)\s*=\s*["']?(?:https?:)?//`, `(?i)url\(\s*["']?(?:https?:)?//`, `(?i)@import`, `\bfetch\(`, `XMLHttpRequest`, `WebSocket\(`} {
		if m := regexp.MustCompile(pattern).FindString(page); m != "" {
			t.Errorf("the page refers to something outside: %q", m)
		}
	}
	if !strings.Contains(page, "default-src 'none'") {
		t.Error("no content security policy")
	}
}

func TestHTMLEscapes(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(2)>`
	r := made(t, runtest.Config{})
	r.Verdict.Scenario, r.Verdict.Run, r.Folder, r.Repeat = evil, evil, evil, evil
	r.Verdict.Reasons = []string{evil}
	r.Lost[0].Reason, r.Lost[0].Cause.Text, r.Lost[0].ID = evil, evil, evil
	r.Verdict.SUT.Chart, r.Verdict.Tool, r.Verdict.Cluster.Version = evil, evil, evil
	r.Timeline.Bands[0].Name, r.Timeline.Bands[0].Detail, r.Timeline.Components[0].Name = evil, evil, evil
	r.Verdict.Losses[0].Cause = evil
	page := render(t, r)
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
		t.Error("text from a run became markup")
	}
	if n := strings.Count(page, "<script"); n != 3 {
		t.Errorf("%d scripts, want 3", n)
	}
}

// TestHTMLData: the data of the picture can be read back from the page.
func TestHTMLData(t *testing.T) {
	r := made(t, runtest.Config{})
	page := render(t, r)
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="timeline">`)
	text, _, ok2 := strings.Cut(rest, "</script>")
	if !ok || !ok2 {
		t.Fatal("no data in the page")
	}
	var got checks.Timeline
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.T) != len(r.Timeline.T) || len(got.Bands) != len(r.Timeline.Bands) {
		t.Errorf("%d samples and %d bands, want %d and %d", len(got.T), len(got.Bands), len(r.Timeline.T), len(r.Timeline.Bands))
	}
}

func TestHTMLWithoutHistory(t *testing.T) {
	page := render(t, Report{Verdict: checks.Verdict{Scenario: "s"}})
	if strings.Contains(page, "<script") {
		t.Error("a script without anything to draw")
	}
	if !strings.Contains(page, "inconclusive") {
		t.Error("a verdict nobody gave is inconclusive")
	}
}
