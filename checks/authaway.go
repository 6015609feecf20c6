package checks

import (
	"fmt"
	"slices"
	"time"

	"shakedown.dev/shakedown/history"
)

// findAuthAway finds the stretches in which no auth was there to answer: the process of the last one had
// ended, and no other was ready yet. A pod that is being deleted is there until its process ends.
func (l *ledger) findAuthAway() {
	var up []span
	begin := never
	for _, p := range l.pods {
		if p.ref.Component != "auth" || len(p.ready) == 0 {
			continue
		}
		begin = earliest(begin, p.ready[0].from)
		for _, r := range p.ready {
			if r.to == p.deleting {
				r.to = max(r.to, p.processEnd(l.last))
			}
			up = append(up, r)
		}
	}
	l.authAway = nil
	if begin == never {
		return
	}
	countSpans(begin, up).over(span{begin, l.last}, func(part span, n int) {
		if n == 0 {
			l.authAway = append(l.authAway, part)
		}
	})
}

// processEnd is when the last container of a pod that is being deleted ended.
func (p *pod) processEnd(last time.Duration) time.Duration {
	if x, ok := p.lastExit(); ok {
		return x.at
	}
	if p.gone != never {
		return p.gone
	}
	return last
}

// awaySuspects: no auth was there, and what ended the last one is known.
func (l *ledger) awaySuspects(w span) []suspect {
	var found []suspect
	for _, away := range l.authAway {
		if !away.overlaps(w) {
			continue
		}
		for _, p := range l.pods {
			if p.ref.Component != "auth" {
				continue
			}
			for _, x := range l.podSuspects(p, span{away.from, away.from}) {
				x.text = fmt.Sprintf("no auth was there from %s to %s: %s", clock(away.from), clock(away.to), x.text)
				found = append(found, x)
			}
		}
	}
	return found
}

// authReturn is how long an agent may need to find an auth again that was replaced: 34 s were seen with 13.0.0-dev.
const authReturn = 90 * time.Second

// stillAway: an auth is there again, but the agent has not opened a session since one was away, so that it may not
// have found it.
func (l *ledger) stillAway(s *session, w span) []suspect {
	if s.agent < 0 {
		return nil
	}
	for _, away := range slices.Backward(l.authAway) {
		if away.to > w.from || w.from > away.to+authReturn || l.openedWithin(s.agent, span{away.to, w.to}) {
			continue
		}
		found := l.awaySuspects(span{away.from, away.from})
		for i := range found {
			found[i].text = fmt.Sprintf("%s had not found an auth again: %s", podName(l.pods[s.agent]), found[i].text)
		}
		return found
	}
	return nil
}

// openedWithin says whether a session to the agent's pod was opened in a stretch of the run.
func (l *ledger) openedWithin(agent int32, w span) bool {
	opens := l.through(agent).opens
	return countTo(opens, w.to) > countTo(opens, w.from)
}

// waitedForAuth says whether the session was at its agent and waited for its shell: a session that is
// recorded does not begin without an auth.
func (ls *lostSession) waitedForAuth() bool {
	return ls.failed == history.PhaseShell && ls.cut == history.CutTimeout
}

// goneWithin keeps what can have kept a session waiting on a connection that stood: a fault in force, or a
// pod that was gone before the session gave up. One that still had its grace period answers.
func goneWithin(found []suspect, w span) []suspect {
	return slices.DeleteFunc(slices.Clone(found), func(x suspect) bool { return x.end != "" && !w.contains(x.span.to) })
}
