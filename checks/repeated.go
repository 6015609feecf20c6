package checks

import (
	"fmt"
	"time"

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

// resendTime is how long after a session its recording may still be on the way to the auth.
const resendTime = time.Minute

// wasDisturbed says whether the session was lost, or an auth was away, or one of the auths and proxies, on which the
// way of a recording leads, ended while it was open or soon after.
func (l *ledger) wasDisturbed(s *session) bool {
	w := span{s.open, s.end + resendTime}
	if s.lost >= 0 || len(l.authSuspects(w)) > 0 {
		return true
	}
	for _, p := range l.pods {
		for _, e := range p.ends {
			if p.ref.Component == "proxy" && e.span.overlaps(w) {
				return true
			}
		}
	}
	return false
}
