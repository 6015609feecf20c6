package compare

import (
	"maps"
	"slices"

	"shakedown.dev/shakedown/checks"
)

// measure takes one number out of a verdict; ok is false where the run has none.
type measure struct {
	name, unit string
	better     int // +1: more is better, -1: less is better, 0: neither
	of         func(checks.Verdict) (v float64, ok bool)
}

func (m measure) row(a, b []checks.Verdict) (Row, bool) {
	r := Row{Measure: m.name, Unit: m.unit, A: m.all(a), B: m.all(b), better: m.better}
	return r, len(r.A) > 0 && len(r.B) > 0
}

func (m measure) all(vs []checks.Verdict) []float64 {
	out := []float64{}
	for _, v := range vs {
		if x, ok := m.of(v); ok {
			out = append(out, x)
		}
	}
	return out
}

// measures are those that any of the runs has.
func measures(vs []checks.Verdict) []measure {
	out := append(capacityMeasures(vs), sessionMeasures()...)
	out = append(out, recordingMeasures()...)
	out = append(out, measure{"recovery", "s", -1, func(v checks.Verdict) (float64, bool) {
		r := v.Measures.Recovery
		if r == nil {
			return 0, false
		}
		return r.Seconds, true // not recovered: at least so long; the warnings say how many
	}})
	return append(out, latencyMeasures(vs)...)
}

func capacityMeasures(vs []checks.Verdict) []measure {
	names := map[string]bool{}
	for _, v := range vs {
		for n := range v.Measures.Capacity {
			names[n] = true
		}
	}
	var out []measure
	for _, n := range slices.Sorted(maps.Keys(names)) {
		for _, f := range []struct {
			name, unit string
			better     int
			of         func(checks.ComponentCapacity) float64
		}{
			{"least", "", +1, func(c checks.ComponentCapacity) float64 { return float64(c.Min) }},
			{"lost", "%", -1, func(c checks.ComponentCapacity) float64 { return 100 * c.LossRatio }},
			{"blackout", "s", -1, func(c checks.ComponentCapacity) float64 { return c.BlackoutSeconds }},
		} {
			out = append(out, measure{n + " pods, " + f.name, f.unit, f.better, func(v checks.Verdict) (float64, bool) {
				c, ok := v.Measures.Capacity[n]
				return f.of(c), ok
			}})
		}
	}
	return out
}

func sessionMeasures() []measure {
	share := func(name string, of func(checks.Verdict) int) measure {
		return measure{name, "%", -1, func(v checks.Verdict) (float64, bool) {
			n := v.Measures.Sessions.Opened
			return 100 * float64(of(v)) / float64(max(n, 1)), n > 0
		}}
	}
	return []measure{
		{"sessions opened", "", 0, func(v checks.Verdict) (float64, bool) { return float64(v.Measures.Sessions.Opened), true }},
		share("sessions dropped", func(v checks.Verdict) int { return v.Measures.Sessions.Dropped }),
		share("sessions refused", func(v checks.Verdict) int { return v.Measures.Sessions.Refused }),
		share("sessions stalled", func(v checks.Verdict) int { return v.Measures.Sessions.Stalled }),
		share("sessions unattributed", func(v checks.Verdict) int { return v.Measures.Sessions.Unattributed }),
		{"goodput", "%", +1, func(v checks.Verdict) (float64, bool) {
			g := v.Measures.Goodput
			if g == nil {
				return 0, false
			}
			return 100 * g.Ratio, true
		}},
	}
}

func recordingMeasures() []measure {
	share := func(name string, of func(checks.Verdict) int) measure {
		return measure{name, "%", -1, func(v checks.Verdict) (float64, bool) {
			n := v.Measures.Recordings.Expected
			return 100 * float64(of(v)) / float64(max(n, 1)), n > 0
		}}
	}
	return []measure{
		share("recordings damaged", func(v checks.Verdict) int {
			r := v.Measures.Recordings
			return r.Truncated + r.Gap + r.NoEnd + r.Missing
		}),
		share("recordings late", func(v checks.Verdict) int { return v.Measures.Recordings.Late }),
	}
}

func latencyMeasures(vs []checks.Verdict) []measure {
	kinds := map[string]bool{}
	for _, v := range vs {
		for k := range v.Measures.Latency {
			kinds[k] = true
		}
	}
	var out []measure
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		for _, f := range []struct {
			name string
			of   func(checks.LatencyRow) float64
		}{{"p50", func(l checks.LatencyRow) float64 { return l.P50Ms }}, {"p99", func(l checks.LatencyRow) float64 { return l.P99Ms }}} {
			out = append(out, measure{"opening of " + k + ", " + f.name, "ms", -1, func(v checks.Verdict) (float64, bool) {
				l, ok := v.Measures.Latency[k][checks.WholeRun]
				return f.of(l), ok
			}})
		}
	}
	return out
}
