package reports

import (
	"bytes"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history/metrics"
)

func TestPodsThemselves(t *testing.T) {
	left, cut := 2.5, 30.0
	r := Report{Verdict: checks.Verdict{
		ProxyStop: &checks.ProxyStop{Grace: 60, Dropped: &cut, Cut: "eof"},
		Measures: checks.VerdictMeasures{Metrics: map[string]map[string]checks.MetricRow{"proxy": {
			metrics.Goroutines: {Metric: gates.Metric{Pods: 3, Min: 90, Max: 1234567, Last: 300}, Type: metrics.Gauge, Meaning: "goroutines", PerSession: &left},
		}}},
	}}
	var page, text bytes.Buffer
	if err := HTML(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go_goroutines", "1235k", "2.5", "its session was cut after 30.0 s (eof)"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "Stopping    a proxy: its session was cut after 30.0 s (eof)") {
		t.Errorf("the text does not tell of the stop:\n%s", &text)
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3.14159: "3.14", 9999: "9999", 12345: "12.3k", 1978e3: "1978k", 52428800: "52.4M"} {
		if got := figures(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
