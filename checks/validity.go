package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Validity is one condition that a run must meet to count.
type Validity struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// Doubt says that without it the measuring itself cannot be trusted, so that nothing found can be
	// held against the system; otherwise only a pass is out of reach.
	Doubt bool `json:"doubt,omitempty"`
}

// validity is one row of the table: judge gives whether it holds and what was seen, in words.
type validity struct {
	name  string
	doubt bool
	judge func(*Measures) (bool, string)
}

func validities() []validity {
	return []validity{
		{"history complete", true, historyComplete},
		{"run finished", false, runFinished},
		{"something measured", false, somethingMeasured},
		{"load offered before the first change", false, loadOffered},
		{"load offered throughout", false, loadKept},
		{"schedule kept", true, scheduleKept},
		{"generator had CPU to spare", true, generatorCPU},
		{"well before each change", false, healthyBefore},
		{"faults bit and healed", false, faultsTrue},
		{"rollouts ended", false, rolloutsEnded},
		{"clock did not jump", true, clockSteady},
		{"API server outages known", false, apiKnown},
		{"nothing unobserved", false, nothingBlind},
		{"control arm present", false, controlPresent},
		{"control arm clean", true, controlClean},
		{"control arm quick", true, controlQuick},
		{"canaries throughout", false, canariesThroughout},
		{"recordings settled", false, recordingsSettled},
		{"sessions ended once", true, endedOnce},
	}
}

func validate(m *Measures) []Validity {
	var out []Validity
	for _, v := range validities() {
		out = append(out, v.apply(m))
	}
	return out
}

func (v validity) apply(m *Measures) (out Validity) {
	out = Validity{Name: v.name, Doubt: v.doubt}
	defer func() {
		if r := recover(); r != nil {
			out.OK, out.Detail = false, fmt.Sprintf("this check crashed: %v", r)
		}
	}()
	out.OK, out.Detail = v.judge(m)
	return out
}

func historyComplete(m *Measures) (bool, string) {
	if m.Start.Format == "" {
		return false, "no start record; " + m.Status.String()
	}
	if !m.Status.Whole() {
		return false, m.Status.String()
	}
	if n := len(m.Status.Unknown); n > 0 {
		return false, fmt.Sprintf("%d kinds of events that this version does not know", n)
	}
	return true, m.Status.String()
}

func runFinished(m *Measures) (bool, string) {
	switch {
	case m.End == nil:
		return false, "the run was cut off: no end record"
	case m.End.How != "finished":
		return false, strings.TrimSuffix(m.End.How+": "+m.End.Error, ": ")
	case len(m.End.Unhealed) > 0:
		return false, "not healed: " + strings.Join(m.End.Unhealed, ", ")
	}
	return true, "finished after " + clock(m.l.endAt)
}

func somethingMeasured(m *Measures) (bool, string) {
	detail := fmt.Sprintf("%d sessions opened, %d canaries, %d recordings looked at", m.All.Opened, m.l.probes, len(m.l.recordings))
	if len(m.Start.Streams) > 0 || m.l.probes == 0 {
		return m.All.Opened > 0 && m.l.probes > 0, detail
	}
	return true, detail
}

func clockSteady(m *Measures) (bool, string) {
	bound := orDefault(m.Start.Bounds.ClockJump, 250*time.Millisecond)
	for _, c := range m.l.clock {
		if c.jump.Abs() > bound {
			return false, fmt.Sprintf("the wall clock jumped by %s at %s", c.jump, clock(c.at))
		}
	}
	return true, fmt.Sprintf("no jump above %s", bound)
}

func orDefault[T ~int64 | ~float64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// outages are the stretches in which the API server was known to be away; open says that the last has no end.
func (l *ledger) outages() (out []span, open bool) {
	for i, c := range l.api {
		switch {
		case !c.up:
			open = true
		case i > 0 && open:
			out = append(out, span{l.api[i-1].since, c.at})
			open = false
		}
	}
	return out, open
}

func apiKnown(m *Measures) (bool, string) {
	outages, open := m.l.outages()
	switch {
	case open:
		return false, "the API server was down at the end: " + m.l.api[len(m.l.api)-1].err
	case len(outages) == 0:
		return true, "none"
	}
	return true, fmt.Sprintf("%d, %s in all", len(outages), clock(totalLength(outages)))
}

// blindGrace is how long a watch may need to come back after the API server has.
const blindGrace = 10 * time.Second

// nothingBlind: nothing was out of sight while the load ran, but for what a known outage of the API
// server hides.
func nothingBlind(m *Measures) (bool, string) {
	outages, _ := m.l.outages()
	load := span{max(m.l.loadBegan, 0), m.l.measured}
	hidden := 0
	var spots []string
	for _, b := range m.l.blind {
		watched := slices.Contains([]string{"pods", "nodes", "endpoints"}, b.what)
		switch {
		case b.what == "metrics" || b.what == "logs": // nothing is judged from them
		case watched && slices.ContainsFunc(outages, func(o span) bool { return b.span.from >= o.from-blindGrace && b.span.to <= o.to+blindGrace }):
			hidden++
		case b.span.overlaps(load) || b.what == "audit" || b.what == "recordings":
			spots = append(spots, fmt.Sprintf("%s from %s to %s", b.what, clock(b.span.from), clock(b.span.to)))
		}
	}
	switch {
	case len(spots) > 0:
		return false, "not observed: " + strings.Join(spots, "; ")
	case hidden > 0:
		return true, fmt.Sprintf("watched without a break but for %d that outages of the API server explain", hidden)
	}
	return true, "everything was watched without a break"
}

func recordingsSettled(m *Measures) (bool, string) {
	unlooked := len(m.l.unlooked)
	if m.Recordings.Pending > 0 {
		return false, fmt.Sprintf("%d of %d pending, %d of these never looked at", m.Recordings.Pending, m.Recordings.Expected, unlooked)
	}
	if n := m.RecordingsNotRead; n > 0 {
		return true, fmt.Sprintf("%d expected, %d read back, %d judged by the audit log alone", m.Recordings.Expected, m.Recordings.Expected-n, n)
	}
	return true, fmt.Sprintf("%d expected, all read back", m.Recordings.Expected)
}

func endedOnce(m *Measures) (bool, string) {
	if n := len(m.l.twice); n > 0 {
		return false, fmt.Sprintf("%d sessions ended more than once, such as %s", n, strings.Join(m.l.twice[:min(n, 3)], ", "))
	}
	return true, fmt.Sprintf("%d sessions, each with one end", len(m.l.sessions))
}

// invalid lists what does not hold; doubtful only what makes the measuring itself doubtful.
func (m *Measures) invalid(doubtful bool) []Validity {
	return slices.DeleteFunc(slices.Clone(m.Validity), func(v Validity) bool { return v.OK || doubtful && !v.Doubt })
}
