// Package checks judges a run from its plan and its history and from nothing else: what was measured,
// whether that counts, what it means. Everything here is pure, so that an old run can be judged again.
//
// Judging goes in three steps. [Measure] reads the history once and computes capacity, sessions with
// their causes, recordings, latency and recovery, and whether the run is valid. [Judge] runs every
// [Check] over that; each gives findings. The verdict is the worst of them: fail beats inconclusive
// beats pass. Where the measuring itself cannot be trusted (a truncated history, a clock that jumped,
// a generator out of breath) nothing can be held against the system either, and a finding that would
// fail becomes inconclusive.
package checks

import (
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// Measures is all that was measured in one run.
type Measures struct {
	Start  history.RunStart
	End    *history.RunEnd // nil: the run was cut off
	Status history.Status
	Expect Expect
	Lasted time.Duration // from the run's start to its last event

	Capacity   map[string]ComponentCapacity
	All        gates.Sessions
	ByPhase    map[string]gates.Sessions
	ByStream   map[string]gates.Sessions
	ByKind     map[string]gates.Sessions
	Recordings gates.Recordings
	// RecordingsNotRead are those judged by the audit log alone, because the scenario samples.
	RecordingsNotRead int
	Matrix            []RecordingCell
	LatencyBy         map[string]map[string]LatencyRow // kind of session, phase of the run
	Opening           map[string]map[string]LatencyRow // kind of session, step of opening
	Steps             []StepRow                        // of streams whose rate changes
	Faults            []FaultRow
	Rollouts          []RolloutRow
	Validity          []Validity
	Metrics           map[string]map[string]MetricRow // component, name

	l          *ledger
	components []*component
	disturbed  span // from the first change to recovery; the whole load if nothing changed
	recovery   recovery
	counted    map[countKey]gates.Sessions
}

// Data answers gates.
func (m *Measures) Data() gates.Data { return view{m} }

// view is Measures as gates ask it: the same names, but as questions.
type view struct{ m *Measures }

// ComponentCapacity is the capacity of one component between the first change and recovery.
type ComponentCapacity struct {
	gates.Capacity
	Basis string `json:"basis"` // serving (canaries) or ready (no canary goes through this component)
}

// Measure reads a history to its end and computes everything that is judged and reported.
func Measure(expect Expect, src Source) *Measures {
	l := readLedger(src)
	l.attribute()
	l.findUnlooked()
	l.judgeRecordings()
	m := &Measures{Start: l.start, End: l.end, Status: l.status, Expect: expect, Lasted: l.last, l: l, counted: map[countKey]gates.Sessions{}}
	m.components = l.components()
	m.recovery = l.findRecovery(m.components)
	m.disturbed = m.disturbedSpan()
	m.measureCapacity()
	m.measureSessions()
	m.Recordings = l.countRecordings(gates.Filter{}, []span{l.whole()})
	m.Matrix = l.recordingMatrix()
	for i := range l.recordings {
		if l.recordings[i].notRead {
			m.RecordingsNotRead++
		}
	}
	m.LatencyBy, m.Opening = l.latencyTable(), l.openingTable()
	m.Steps = m.stepTable()
	costs := l.costs()
	m.Faults, m.Rollouts = m.faultRows(costs), m.rolloutRows(costs)
	m.Metrics = l.metricTable()
	m.Validity = validate(m)
	return m
}

// disturbedSpan is what capacity is judged over.
func (m *Measures) disturbedSpan() span {
	if at := m.l.firstChange(); at != never {
		return span{at, max(m.recovery.at, at)}
	}
	return span{max(m.l.loadBegan, 0), m.l.judgedTo()}
}

func (m *Measures) measureCapacity() {
	m.Capacity = map[string]ComponentCapacity{}
	for _, c := range m.components {
		v, err := m.Data().Capacity(c.name, gates.Window{})
		if err != nil {
			continue // not known: absent rather than zero
		}
		_, basis := c.capacity()
		m.Capacity[c.name] = ComponentCapacity{Capacity: v, Basis: basis}
	}
}

func (m *Measures) measureSessions() {
	whole := []span{m.l.whole()}
	m.All = m.l.countSessions(gates.Filter{}, whole)
	m.ByPhase, m.ByStream, m.ByKind = map[string]gates.Sessions{}, map[string]gates.Sessions{}, map[string]gates.Sessions{}
	for _, name := range m.l.entryOrder {
		m.ByPhase[name] = m.l.countSessions(gates.Filter{}, m.l.entries[name].runs)
	}
	streams, kinds := m.l.streamsAndKinds()
	for _, s := range streams {
		m.ByStream[s] = m.l.countSessions(gates.Filter{Stream: s}, whole)
	}
	for _, k := range kinds {
		m.ByKind[k] = m.l.countSessions(gates.Filter{Kind: k}, whole)
	}
}

// streamsAndKinds are those that had sessions, in the order of their first one.
func (l *ledger) streamsAndKinds() (streams, kinds []string) {
	seen := map[[2]int32]bool{}
	for i := range l.sessions {
		s := &l.sessions[i]
		if k := [2]int32{0, s.stream}; !seen[k] {
			seen[k] = true
			streams = append(streams, l.strings.name(s.stream))
		}
		if k := [2]int32{1, s.kind}; !seen[k] {
			seen[k] = true
			kinds = append(kinds, l.strings.name(s.kind))
		}
	}
	return streams, kinds
}

// Phases are the timeline entries that ran, in the order of their first event.
func (m *Measures) Phases() []string { return m.l.entryOrder }
