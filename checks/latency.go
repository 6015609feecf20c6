package checks

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// latencies is an HDR histogram of durations in microseconds, 1 µs to 2 h, three significant figures.
// What lies beyond is counted at the limit rather than left out.
type latencies struct{ h *hdrhistogram.Histogram }

const maxLatency = 2 * time.Hour

func newLatencies() *latencies {
	return &latencies{hdrhistogram.New(1, maxLatency.Microseconds(), 3)}
}

func (l *latencies) add(d time.Duration) {
	us := min(max(d, time.Microsecond), maxLatency).Microseconds()
	_ = l.h.RecordValue(us) // within the histogram's bounds by construction
}

func (l *latencies) quantile(percent float64) time.Duration {
	return time.Duration(l.h.ValueAtPercentile(percent)) * time.Microsecond
}

func (l *latencies) summary() gates.Latency {
	return gates.Latency{
		Count: int(l.h.TotalCount()), P50: l.quantile(50), P90: l.quantile(90), P95: l.quantile(95), P99: l.quantile(99),
		P999: l.quantile(99.9), Max: time.Duration(l.h.Max()) * time.Microsecond,
		Mean: time.Duration(l.h.Mean()) * time.Microsecond,
	}
}

// openingStep is one step of opening sessions of one kind.
type openingStep struct {
	kind int32
	step history.Phase
}

func (l *ledger) addOpening(d history.Session) {
	kind := l.strings.id(d.Type)
	for _, p := range d.Phases {
		key := openingStep{kind, p.Phase}
		h := l.opening[key]
		if h == nil {
			h = newLatencies()
			l.opening[key] = h
		}
		h.add(p.Took)
	}
}

// Latency of opening, from due to open, of a stream or of a kind of session, for those due in the window.
func (v view) Latency(name string, w gates.Window) (gates.Latency, error) {
	windows, err := v.m.l.spans(w)
	if err != nil {
		return gates.Latency{}, err
	}
	h := v.m.l.openLatency(v.m.l.strings.id(name), windows)
	if h.h.TotalCount() == 0 {
		return gates.Latency{}, fmt.Errorf("no session of %s opened %s: %w", name, w, gates.ErrNoSamples)
	}
	return h.summary(), nil
}

func (l *ledger) openLatency(name int32, windows []span) *latencies {
	h := newLatencies()
	for i := range l.sessions {
		s := &l.sessions[i]
		if s.open > 0 && (s.stream == name || s.kind == name) && inAny(windows, s.due) {
			h.add(s.open - s.due)
		}
	}
	return h
}

// LatencyRow is one line of the latency table, as verdict.json has it.
type LatencyRow struct {
	Count int     `json:"count"`
	P50Ms float64 `json:"p50Ms"`
	P90Ms float64 `json:"p90Ms"`
	P99Ms float64 `json:"p99Ms"`
	MaxMs float64 `json:"maxMs"`
}

func latencyRow(h *latencies) LatencyRow {
	s := h.summary()
	return LatencyRow{Count: s.Count, P50Ms: ms(s.P50), P90Ms: ms(s.P90), P99Ms: ms(s.P99), MaxMs: ms(s.Max)}
}

func ms(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// WholeRun is the phase name under which latency over the whole run stands.
const WholeRun = "run"

// latencyTable gives open latency by kind of session and phase of the run, in one pass.
func (l *ledger) latencyTable() map[string]map[string]LatencyRow {
	hists := map[int32]map[string]*latencies{}
	for i := range l.sessions {
		s := &l.sessions[i]
		if s.open == 0 {
			continue
		}
		byPhase := hists[s.kind]
		if byPhase == nil {
			byPhase = map[string]*latencies{WholeRun: newLatencies()}
			hists[s.kind] = byPhase
		}
		byPhase[WholeRun].add(s.open - s.due)
		for _, name := range l.entryOrder {
			if !inAny(l.entries[name].runs, s.due) {
				continue
			}
			if byPhase[name] == nil {
				byPhase[name] = newLatencies()
			}
			byPhase[name].add(s.open - s.due)
		}
	}
	return l.latencyRows(hists)
}

func (l *ledger) latencyRows(hists map[int32]map[string]*latencies) map[string]map[string]LatencyRow {
	out := map[string]map[string]LatencyRow{}
	for kind, byPhase := range hists {
		rows := map[string]LatencyRow{}
		for name, h := range byPhase {
			rows[name] = latencyRow(h)
		}
		out[l.strings.name(kind)] = rows
	}
	return out
}

// openingTable gives how long each step of opening took, by kind of session.
func (l *ledger) openingTable() map[string]map[string]LatencyRow {
	out := map[string]map[string]LatencyRow{}
	for key, h := range l.opening {
		kind := l.strings.name(key.kind)
		if out[kind] == nil {
			out[kind] = map[string]LatencyRow{}
		}
		out[kind][string(key.step)] = latencyRow(h)
	}
	return out
}
