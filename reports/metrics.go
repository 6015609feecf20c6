package reports

import (
	"maps"
	"slices"
	"strconv"

	"shakedown.dev/shakedown/history/metrics"
)

// metricRow is one metric of one component as a page shows it.
type metricRow struct {
	Component, Name, Meaning       string
	Pods                           int
	Min, Max, Last, Increase, Left string
}

// metricRows are the scraped metrics, by component, in the table's order.
func (r Report) metricRows() []metricRow {
	var out []metricRow
	for _, component := range slices.Sorted(maps.Keys(r.Verdict.Measures.Metrics)) {
		of := r.Verdict.Measures.Metrics[component]
		for _, about := range metrics.Table() {
			m, ok := of[about.Name]
			if !ok {
				continue
			}
			row := metricRow{Component: component, Name: about.Name, Meaning: m.Meaning, Pods: m.Pods, Increase: "–", Left: "–"}
			row.Min, row.Max, row.Last = figures(m.Min), figures(m.Max), figures(m.Last)
			if m.Type == metrics.Counter {
				row.Increase = figures(m.Increase)
			}
			if m.PerSession != nil {
				row.Left = figures(*m.PerSession)
			}
			out = append(out, row)
		}
	}
	return out
}

// figures gives a number in three figures, with k, M or G for thousands.
func figures(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if v < 10_000 && v > -10_000 {
			break
		}
		v, unit = v/1000, u
	}
	prec := 3
	if v >= 1000 || v <= -1000 {
		prec = 4
	}
	return strconv.FormatFloat(v, 'g', prec, 64) + unit
}
