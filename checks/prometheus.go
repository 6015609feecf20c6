package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
	"shakedown.dev/shakedown/scenarios"
)

// Prometheus is what the scenario's Prometheus answered to a query while the run's end was written down.
func (v view) Prometheus(query string) (float64, error) {
	for _, a := range v.m.l.promql {
		if a.Name != query {
			continue
		}
		switch {
		case a.Error != "":
			return 0, fmt.Errorf("prometheus, %s: %s", query, a.Error)
		case len(a.Series) > 1:
			return 0, fmt.Errorf("prometheus, %s: %d series: put them together, with sum() or max()", query, len(a.Series))
		case !a.Found && v.m.Expect.Missing[query] == scenarios.MissingZero:
			return 0, nil
		case !a.Found:
			return 0, fmt.Errorf("prometheus has no data for %s: %w", query, gates.ErrNoSamples)
		}
		return a.Value, nil
	}
	return 0, fmt.Errorf("prometheus was not asked for %s: %w", query, gates.ErrNoSamples)
}

// Plot is a chart beside those that every run has.
type Plot struct {
	Title  string       `json:"title"`
	Series []PlotSeries `json:"series"`
}

// PlotSeries is one line of it, sampled as the Timeline is; nil: not known then.
type PlotSeries struct {
	Name string     `json:"name"`
	V    []*float64 `json:"v"`
}

// maxPlotSeries bounds the lines in one chart: more cannot be told apart.
const maxPlotSeries = 8

// plots are the scenario's own, and what the pods said of the memory and goroutines they use.
func (l *ledger) plots(t *Timeline) []Plot {
	plots := []Plot{}
	for _, name := range []string{metrics.Resident, metrics.Goroutines} {
		p := Plot{Title: map[string]string{metrics.Resident: "Resident memory of a pod, the highest (MiB)", metrics.Goroutines: "Goroutines of a pod, the most"}[name]}
		for _, component := range l.scrapedComponents(name) {
			p.Series = append(p.Series, PlotSeries{component, l.highest(name, component, t)})
		}
		if len(p.Series) > 0 {
			plots = append(plots, p)
		}
	}
	for _, a := range l.promql {
		if len(a.Series) == 0 {
			continue
		}
		p := Plot{Title: a.Name}
		for _, s := range a.Series[:min(len(a.Series), maxPlotSeries)] {
			p.Series = append(p.Series, PlotSeries{seriesName(s, a.Name), t.sampled(s.T, s.V)})
		}
		plots = append(plots, p)
	}
	return plots
}

// highest is the highest value among a component's pods in each sample.
func (l *ledger) highest(name, component string, t *Timeline) []*float64 {
	out := make([]*float64, len(t.T))
	for _, pod := range l.podsOf(l.metrics[name], component) {
		var at, v []float64
		for _, s := range l.metrics[name][pod] {
			value := s.v
			if name == metrics.Resident {
				value /= 1 << 20
			}
			at, v = append(at, s.at.Seconds()), append(v, value)
		}
		for i, x := range t.sampled(at, v) {
			if x != nil && (out[i] == nil || *x > *out[i]) {
				out[i] = x
			}
		}
	}
	return out
}

// sampled puts points into samples; the last in each counts.
func (t *Timeline) sampled(at, v []float64) []*float64 {
	out := make([]*float64, len(t.T))
	for i := range min(len(at), len(v)) {
		if n := int(at[i] / t.Step); at[i] >= 0 && n < len(out) {
			out[n] = &v[i]
		}
	}
	return out
}

func seriesName(s history.PrometheusSeries, otherwise string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		if k != "__name__" {
			parts = append(parts, s.Labels[k])
		}
	}
	if len(parts) == 0 {
		return otherwise
	}
	return strings.Join(parts, " ")
}
