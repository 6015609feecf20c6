package reports

import (
	"bytes"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
)

// TestSteps: who steps the load up wants to read where the system broke.
func TestSteps(t *testing.T) {
	r := made(t, runtest.Config{Standin: true})
	r.Verdict.Measures.Steps = []checks.StepRow{
		{Stream: "climb", Step: 1, Rate: 20, Due: 400, Opened: 400, P99Ms: 120, Kept: checks.StepKept},
		{Stream: "climb", Step: 2, Rate: 40, Due: 800, Opened: 500, Refused: 300, P99Ms: 9000, Kept: checks.StepBroken},
	}
	for name, format := range map[string]Reporter{"text": Text, "markdown": Markdown, "html": HTML} {
		var b bytes.Buffer
		if err := format(&b, r); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		if want := "climb: broken at 40/s (500 of 800 due opened, p99 9000 ms), kept up with 20/s (p99 120 ms)"; !strings.Contains(text, want) {
			t.Errorf("%s does not say where it broke:\n%s", name, text)
		}
		if name == "html" && !strings.Contains(text, "<td>broken</td>") {
			t.Errorf("the page has no table of the steps")
		}
	}
}
