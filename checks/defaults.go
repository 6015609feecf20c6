package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

const examples = 5

// validityFindings: what does not hold makes the run inconclusive, each with its reason.
func validityFindings(m *Measures) []Finding {
	var out []Finding
	for _, v := range m.invalid(false) {
		out = append(out, Finding{Summary: v.Name + ": " + v.Detail})
	}
	if len(out) == 0 {
		return one(Pass, "the run is valid: all %d conditions hold", len(m.Validity))
	}
	return out
}

// sessionsExplained: every dropped, refused or stalled session has a cause on its path.
func sessionsExplained(m *Measures) []Finding {
	if len(m.Start.Streams) == 0 && m.All.Offered == 0 && m.Start.Format != "" {
		return nil // no load was planned
	}
	if m.All.Opened+m.All.Refused == 0 {
		return one(Inconclusive, "no session was opened or refused")
	}
	n, blind := 0, 0
	var details []string
	for i := range m.l.lost {
		ls := &m.l.lost[i]
		if ls.cause.Found {
			continue
		}
		n++
		if ls.cause.Blind {
			blind++
		}
		if len(details) < examples {
			details = append(details, m.l.lossText(ls))
		}
	}
	switch {
	case n == 0:
		return one(Pass, "each of %d lost sessions has a named cause", len(m.l.lost))
	case blind == n:
		return []Finding{{Summary: fmt.Sprintf("%d lost sessions without a cause, but pods could not be observed when they were lost", n), Details: details}}
	}
	return []Finding{{Outcome: Fail, Summary: fmt.Sprintf("%d of %d lost sessions have no cause (unattributed)", n, len(m.l.lost)), Details: details}}
}

func (l *ledger) lossText(ls *lostSession) string {
	s := &l.sessions[ls.session]
	text := fmt.Sprintf("%s %s at %s", s.id, s.class, clock(s.end))
	if s.proxy >= 0 {
		text += " through " + podName(l.pods[s.proxy])
	}
	if what := firstText(string(ls.cut), string(ls.failed)); what != "" {
		text += " (" + what + ")"
	}
	return because(text, ls.reason)
}

// recordingsExplained: every recording of which something is lost has a cause on its path.
func recordingsExplained(m *Measures) []Finding {
	if m.Recordings.Expected == 0 {
		if len(m.l.recordings) == 0 && !m.recordingGates() {
			return one(Pass, "no recording was expected")
		}
		return one(Inconclusive, "no recording was expected, though a gate asks for some")
	}
	counts, n, lost := map[history.RecordingClass]int{}, 0, 0
	var details []string
	for i := range m.l.damaged {
		d := &m.l.damaged[i]
		if lost++; d.cause.Found {
			continue
		}
		n++
		r := &m.l.recordings[d.recording]
		counts[r.class.name()]++
		if len(details) < examples {
			details = append(details, fmt.Sprintf("%s %s, holder %s", d.id, r.class.name(), m.l.strings.name(r.holderEnd)))
		}
	}
	if n == 0 {
		return one(Pass, "each of %d damaged recordings has a named cause", lost)
	}
	return []Finding{{Outcome: Fail, Summary: fmt.Sprintf("%d recordings were damaged without a cause (%s)", n, recordingWords(counts)), Details: details}}
}

func recordingWords(counts map[history.RecordingClass]int) string {
	var words []string
	for _, c := range history.RecordingClasses() {
		if counts[c] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[c], c))
		}
	}
	return strings.Join(words, ", ")
}

func (m *Measures) recordingGates() bool {
	return slices.ContainsFunc(m.Expect.Gates, func(g gate) bool { return strings.Contains(g.Expr, "recordings.") })
}

// linesIntact: no session got back a line that differs from what it typed.
func linesIntact(m *Measures) []Finding {
	var bad []string
	opened := 0
	for i := range m.l.sessions {
		s := &m.l.sessions[i]
		if s.open > 0 {
			opened++
		}
		if s.bad {
			bad = append(bad, s.id)
		}
	}
	switch {
	case opened == 0 && len(m.Start.Streams) == 0 && m.Start.Format != "":
		return nil // no load was planned
	case opened == 0:
		return one(Inconclusive, "no session was open")
	case len(bad) > 0:
		return []Finding{{Outcome: Fail, Summary: fmt.Sprintf("%d sessions got back lines other than they typed", len(bad)), Details: bad[:min(examples, len(bad))]}}
	}
	return one(Pass, "what came back in %d sessions is what was typed", opened)
}

// rolloutsSucceeded: no rollout ended otherwise than with every replica updated and ready.
func rolloutsSucceeded(m *Measures) []Finding {
	var out []Finding
	for _, r := range m.l.rollouts {
		switch {
		case !r.disturbs():
		case r.end == never || r.outcome == history.Unknown || r.outcome == "":
			out = append(out, Finding{Summary: because(fmt.Sprintf("nobody knows how %s %s ended", r.verb, r.id), r.err)})
		case r.outcome == history.Failed:
			out = append(out, Finding{Outcome: Fail, Summary: because(fmt.Sprintf("%s %s failed", r.verb, r.id), r.err)})
		default:
			out = append(out, Finding{Outcome: Pass, Summary: fmt.Sprintf("%s %s ended after %s", r.verb, r.id, clock(r.end-r.begin))})
		}
	}
	return out
}

// timelineKept: no entry's action failed and no condition was missed, except where the scenario says what that means.
func timelineKept(m *Measures) []Finding {
	var out []Finding
	for _, name := range m.l.entryOrder {
		p := m.l.entries[name]
		switch {
		case p.missed && p.orElse == "fail":
			out = append(out, Finding{Outcome: Fail, Summary: because(name+": its condition did not hold in time", firstText(p.detail, p.when))})
		case p.missed && p.orElse != "skip":
			out = append(out, Finding{Summary: because(name+": its condition did not hold in time", firstText(p.detail, p.when))})
		case p.failed != "":
			out = append(out, Finding{Summary: because(name+" failed", p.failed)})
		}
	}
	if len(m.l.entryOrder) == 0 {
		return one(Inconclusive, "no timeline entry was recorded")
	}
	if len(out) == 0 {
		return one(Pass, "all %d entries of the timeline took place", len(m.l.entryOrder))
	}
	return out
}

// patience is how long no recovery is only "not yet": DESIGN's example waits as long.
const patience = 5 * time.Minute

// recoveredCheck: after the last disturbance capacity and latency came back and stayed.
func recoveredCheck(m *Measures) []Finding {
	r := m.recovery
	switch {
	case r.from == never:
		return nil
	case r.Recovered:
		return one(Pass, "recovered %.1f s after the last disturbance", r.Seconds)
	case r.Seconds >= patience.Seconds():
		return one(Fail, "not recovered within %.0f s after the last disturbance", r.Seconds)
	}
	return one(Inconclusive, "no recovery seen in the %.0f s watched after the last disturbance", r.Seconds)
}
