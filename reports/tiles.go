package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// tiles are the numbers to see first: what of capacity, sessions and recordings was lost.
func tiles(r Report) []tile {
	m := r.Verdict.Measures
	var out []tile
	for _, c := range r.components() {
		v := m.Capacity[c]
		out = append(out, tile{Name: "Least " + c + " capacity", Value: fmt.Sprintf("%d of %d", v.Min, v.Desired),
			Note: percent(v.LossRatio) + " lost, by " + v.Basis + " pods", Bad: v.Min < v.Desired})
	}
	s := m.Sessions
	out = append(out,
		tile{Name: "Sessions lost", Value: group(lostSessions(s)), Bad: lostSessions(s) > 0,
			Note: fmt.Sprintf("%s dropped, %s refused, %s stalled of %s", group(s.Dropped), group(s.Refused), group(s.Stalled), group(s.Offered))},
		tile{Name: "Without a cause", Value: group(s.Unattributed), Bad: s.Unattributed > 0, Note: group(s.Ambiguous) + " ambiguous"})
	rec := m.Recordings
	t := tile{Name: "Recordings damaged", Value: group(damaged(rec)), Bad: damaged(rec) > 0, Note: fmt.Sprintf("of %s expected, %s pending", group(rec.Expected), group(rec.Pending))}
	if rec.Expected == 0 {
		t.Value, t.Note = "–", "none expected"
	}
	out = append(out, t)
	t = tile{Name: "Recovery", Value: "–", Note: "nothing was disturbed"}
	if m.Recovery != nil {
		t.Value, t.Note, t.Bad = length(m.Recovery.Seconds), "after the last disturbance", !m.Recovery.Recovered
		if t.Bad {
			t.Value, t.Note = "not seen", "in "+length(m.Recovery.Seconds)+" watched"
		}
	}
	return append(out, t)
}

// picture tells in words what the charts show, for those who cannot see them.
func picture(r Report) string {
	if r.Timeline == nil {
		return ""
	}
	t := r.Timeline
	words := []string{fmt.Sprintf("%d samples of %.0f s each.", len(t.T), t.Step)}
	for _, c := range t.Components {
		for _, s := range []struct {
			what   string
			values []*int
		}{{"ready", c.Ready}, {"serving", c.Serving}} {
			if least, when, ok := least(s.values, t.T); ok {
				words = append(words, fmt.Sprintf("%s pods %s: least %d of %d, at %.0f s.", c.Name, s.what, least, c.Desired, when))
			}
		}
	}
	if len(t.Held) > 0 {
		words = append(words, fmt.Sprintf("Sessions held: at most %d.", slices.Max(t.Held)))
	}
	for _, b := range t.Bands {
		if b.What != "phase" {
			words = append(words, fmt.Sprintf("%s %s from %.1f s to %.1f s.", b.What, b.Name, b.From, b.To))
		}
	}
	return strings.Join(words, " ")
}

func least(values []*int, t []float64) (n int, when float64, ok bool) {
	for i, v := range values {
		if v != nil && (!ok || *v < n) {
			n, when, ok = *v, t[i], true
		}
	}
	return n, when, ok
}
