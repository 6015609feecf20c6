package checks

import (
	"fmt"
	"time"

	"shakedown.dev/shakedown/scenarios"
)

// PlannedSteps is a stream of the open model whose rate changes, as planned. Times count from the load's begin.
type PlannedSteps struct {
	Stream string
	First  time.Duration // when its first session is due, by which the load's begin is found in the history
	Steps  []PlannedStep
}

// PlannedStep is a stretch of time with one rate, or with one that goes from From to To in a line.
type PlannedStep struct {
	At, Until time.Duration // Until 0: without end
	From, To  float64       // sessions a second
}

// StepRow is what became of one step: how the system under test did at that rate.
type StepRow struct {
	Stream  string  `json:"stream"`
	Step    int     `json:"step"` // from 1
	Rate    float64 `json:"rate"` // sessions a second; the highest where it changes
	Start   float64 `json:"start"`
	End     float64 `json:"end"` // seconds since the run's start
	Due     int     `json:"due"` // sessions, those left out that say nothing of the rate: the generator's own failures, those that the run's end cut off, and those whose refusal has another cause
	Opened  int     `json:"opened"`
	Capped  int     `json:"capped,omitempty"` // due, and not begun because maxHeld were held
	Missed  int     `json:"missed,omitempty"` // due, and not begun by the generator's own failure
	Refused int     `json:"refused"`          // of those due
	P50Ms   float64 `json:"p50Ms"`            // of opening, from due to open
	P99Ms   float64 `json:"p99Ms"`
	// Kept says whether the system kept up: kept, broken, or not offered (the rate was not reached, so nobody knows).
	Kept string `json:"kept"`
}

// What became of a step.
const (
	StepKept       = "kept"
	StepBroken     = "broken"
	StepNotOffered = "not offered"
)

// plannedSteps are the streams whose rate changes.
func plannedSteps(p *scenarios.Plan) (out []PlannedSteps) {
	for _, s := range p.Streams {
		if s.Arrival.Open == nil || len(s.Arrival.Open.Legs) < 2 {
			continue
		}
		planned := PlannedSteps{Stream: s.Name}
		for _, at := range s.Arrivals() {
			planned.First = at
			break
		}
		at, end := s.Start.Duration(), time.Duration(0)
		if s.For > 0 {
			end = at + s.For.Duration()
		}
		for _, l := range s.Arrival.Open.Legs {
			if end > 0 && at >= end {
				break
			}
			step := PlannedStep{At: at, Until: end, From: l.From, To: l.To}
			if at += l.For.Duration(); l.For > 0 && (end == 0 || at < end) {
				step.Until = at
			}
			planned.Steps = append(planned.Steps, step)
		}
		out = append(out, planned)
	}
	return out
}

// stepTable is what became of each step that was reached. A stream whose first session is not in the history has none:
// nobody knows when it began.
func (m *Measures) stepTable() (out []StepRow) {
	for _, p := range m.Expect.Steps {
		first, ok := m.l.byID[p.Stream+"/1"]
		if !ok {
			first, ok = m.l.byID[p.Stream+"/1#1"] // of several channels
		}
		if !ok {
			continue
		}
		began := m.l.sessions[first].due - p.First
		for i, s := range p.Steps {
			w := span{began + s.At, m.l.judgedTo()}
			if s.Until > 0 {
				w.to = min(w.to, began+s.Until)
			}
			if max(s.From, s.To) == 0 || w.to <= w.from {
				continue
			}
			row := m.step(p.Stream, w)
			row.Step, row.Rate = i+1, max(s.From, s.To)
			out = append(out, row)
		}
	}
	return out
}

// step counts the sessions of a stream that were due in a window.
func (m *Measures) step(stream string, w span) StepRow {
	row := StepRow{Stream: stream, Start: inSeconds(w.from), End: inSeconds(w.to), Capped: m.l.capped(stream, w)}
	id, h := m.l.strings.id(stream), newLatencies()
	for i := range m.l.sessions {
		s := &m.l.sessions[i]
		if s.stream != id || !w.contains(s.due) {
			continue
		}
		switch {
		case s.class == ours:
			row.Missed++
			continue
		case s.open > 0:
			row.Opened++
			h.add(s.open - s.due)
		case s.class == unfinished:
			continue
		case s.class == refused && s.lost >= 0 && m.l.lost[s.lost].cause.Found:
			continue // what was done to the system, not the rate
		case s.class == refused:
			row.Refused++
		}
		row.Due++
	}
	row.P50Ms, row.P99Ms = ms(h.quantile(50)), ms(h.quantile(99))
	share := m.offeredShare()
	switch due := float64(row.Due); {
	case row.Due == 0 || due < share*float64(row.Due+row.Capped+row.Missed):
		row.Kept = StepNotOffered
	case float64(row.Opened) < share*due:
		row.Kept = StepBroken
	default:
		row.Kept = StepKept
	}
	return row
}

// capped is how many sessions of a stream were not begun in a window because enough were held.
func (l *ledger) capped(stream string, w span) int {
	var before, after uint64
	for _, x := range l.streams[stream] {
		if x.at <= w.from {
			before = x.Capped
		}
		if x.at <= w.to {
			after = x.Capped
		}
	}
	return int(after - before)
}

// BreakingPoint tells of each stream with steps at which rate the system no longer kept up: the first step that is
// broken, and the last before it that was kept.
func BreakingPoint(rows []StepRow) (out []string) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Stream == rows[0].Stream {
			n++
		}
		if text := breaking(rows[:n]); text != "" {
			out = append(out, rows[0].Stream+": "+text)
		}
		rows = rows[n:]
	}
	return out
}

func breaking(steps []StepRow) string {
	var kept *StepRow
	for i := range steps {
		switch s := &steps[i]; s.Kept {
		case StepBroken:
			text := fmt.Sprintf("broken at %.4g/s (%d of %d due opened, p99 %.0f ms)", s.Rate, s.Opened, s.Due, s.P99Ms)
			if kept != nil {
				text += fmt.Sprintf(", kept up with %.4g/s (p99 %.0f ms)", kept.Rate, kept.P99Ms)
			}
			return text
		case StepKept:
			if kept == nil || s.Rate >= kept.Rate {
				kept = s
			}
		}
	}
	if kept == nil {
		return "no step was offered"
	}
	text := fmt.Sprintf("kept up with %.4g/s (p99 %.0f ms)", kept.Rate, kept.P99Ms)
	if last := steps[len(steps)-1]; last.Kept == StepNotOffered {
		text += fmt.Sprintf("; %.4g/s was not reached", last.Rate)
	}
	return text
}
