package checks

import (
	"fmt"

	"shakedown.dev/shakedown/history"
)

// repeated is a recording in which events stand more than once.
type repeated struct {
	id      string
	session int32 // -1: not in the ledger
	events  int
}

// addRepeated takes a recording that tells of one event twice.
func (l *ledger) addRepeated(session int32, d history.Recording) {
	if d.Repeated > 0 {
		l.repeated = append(l.repeated, repeated{d.Session, session, d.Repeated})
	}
}

// nothingTwice: no recording has an event more than once for which there was no reason. A recorder that lost its auth
// or its session sends again what nobody confirmed, so what happened then is only told of.
func nothingTwice(m *Measures) []Finding {
	var bad, excused []string
	for _, r := range m.l.repeated {
		text := fmt.Sprintf("%s: %d events more than once", r.id, r.events)
		if r.session >= 0 && m.l.wasDisturbed(&m.l.sessions[r.session]) {
			excused = append(excused, text)
		} else {
			bad = append(bad, text)
		}
	}
	var out []Finding
	if n := len(bad); n > 0 {
		out = append(out, Finding{Outcome: Fail, Summary: fmt.Sprintf("%d recordings have events more than once, and nothing disturbed their sessions", n), Details: bad[:min(examples, n)]})
	}
	if n := len(excused); n > 0 {
		out = append(out, Finding{Outcome: Pass, Note: true, Summary: fmt.Sprintf("%d recordings have events more than once, of sessions that were disturbed", n), Details: excused[:min(examples, n)]})
	}
	if len(out) == 0 && m.Recordings.Complete > 0 {
		return one(Pass, "no recording has an event twice")
	}
	return out
}

// wasDisturbed says whether the session was lost, or an auth was away or ended while it was open.
func (l *ledger) wasDisturbed(s *session) bool {
	return s.lost >= 0 || len(l.authSuspects(span{s.open, s.end})) > 0
}
