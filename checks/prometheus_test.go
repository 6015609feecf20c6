package checks

import (
	"strings"
	"testing"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
)

func TestPrometheusAnswers(t *testing.T) {
	answer := func(p history.Prometheus) func(*world) {
		return func(w *world) { p.Name = "q"; w.at(94*sec, "q", p) }
	}
	two := []history.PrometheusSeries{{T: []float64{1}, V: []float64{2}}, {T: []float64{1}, V: []float64{3}}}
	for _, tt := range []struct {
		says    string
		missing string
		mods    []func(*world)
		want    float64
		err     string
	}{
		{"a number", "inconclusive", []func(*world){answer(history.Prometheus{Found: true, Value: 3})}, 3, ""},
		{"no data is not zero", "inconclusive", []func(*world){answer(history.Prometheus{})}, 0, "no data"},
		{"no data is zero where the scenario says so", "zero", []func(*world){answer(history.Prometheus{})}, 0, ""},
		{"an error is not zero, whatever the scenario says of no data", "zero", []func(*world){answer(history.Prometheus{Error: "connection refused"})}, 0, "connection refused"},
		{"several series are no number", "inconclusive", []func(*world){answer(history.Prometheus{Found: true, Series: two})}, 0, "2 series"},
		{"it was not asked", "zero", nil, 0, "not asked"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			w := steady(tt.mods...)
			w.expect.Missing = map[string]string{"q": tt.missing}
			got, err := w.measure(t).Data().Prometheus("q")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestPlots(t *testing.T) {
	m := steady(scrapedProxies(metrics.Goroutines, func(i int, _, _, _ float64) float64 { return float64(i) }), func(w *world) {
		w.at(94*sec, "tunnels", history.Prometheus{Name: "tunnels", Found: true, Series: []history.PrometheusSeries{{Labels: map[string]string{"pod": "a", "__name__": "x"}, T: []float64{3.5}, V: []float64{7}}}})
	}).measure(t)
	plots := m.Timeline().Plots
	if len(plots) != 2 || plots[0].Series[0].Name != "proxy" || *plots[0].Series[0].V[5] != 3 {
		t.Fatalf("got %+v", plots)
	}
	if s := plots[1].Series[0]; s.Name != "a" || s.V[2] != nil || *s.V[3] != 7 {
		t.Errorf("got %+v", s)
	}
}
