package checks

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// An agent finds its first proxy at once and the others within a minute. One that so many sessions found no way to for
// so long, through whichever proxy, is registered and out of reach.
const (
	unreachableFor   = 10 * time.Second
	unreachableNew   = 30 * time.Second // of one that began in the minute before
	unreachableLeast = 3
)

// unreached is a stretch in which no session was routed to an agent.
type unreached struct {
	span
	sessions int
	pod      int32
	through  []int32 // the proxies that said so
}

// registeredIsReachable: no agent that nothing was done to was offered by Teleport while no proxy knew a way to it.
// That it is new explains a session or two, not all of them.
func registeredIsReachable(m *Measures) []Finding {
	looked := false
	var out []Finding
	for _, sessions := range m.l.byAgent() {
		looked = true
		w := m.l.longestUnreached(sessions)
		if w.sessions < unreachableLeast || w.length() < m.l.unreachableAllowed(w) || !m.l.throughAll(w) {
			continue
		}
		out = append(out, Finding{Outcome: Fail, Summary: fmt.Sprintf("the agent of %s was registered and out of reach: %d sessions in %s from %s on found no way to it, through any proxy",
			podName(m.l.pods[w.pod]), w.sessions, clock(w.length()), clock(w.from))})
	}
	if looked && len(out) == 0 {
		return one(Pass, "no registered agent was out of reach for %s", unreachableFor)
	}
	return out
}

// unreachableAllowed gives an agent that has just begun, on a machine that begins others as well, the time for it.
func (l *ledger) unreachableAllowed(w unreached) time.Duration {
	if b, ok := l.birthOf(l.pods[w.pod], w.to, func(string) bool { return true }); ok && w.from-b.at < deadSinceTheStart {
		return unreachableNew
	}
	return unreachableFor
}

// throughAll says whether each proxy that was ready when the stretch began is one that said so. One that was broken
// otherwise may have had a way to the agent.
func (l *ledger) throughAll(w unreached) bool {
	for i, p := range l.pods {
		if p.ref.Component == "proxy" && inAny(p.ready, w.from) && !slices.Contains(w.through, int32(i)) {
			return false
		}
	}
	return true
}

// byAgent are the sessions of each agent whose pod is known, by their start.
func (l *ledger) byAgent() [][]*session {
	of := map[int32][]*session{}
	for i := range l.sessions {
		if s := &l.sessions[i]; s.agentID != 0 && s.agent >= 0 {
			of[s.agentID] = append(of[s.agentID], s)
		}
	}
	var out [][]*session
	for _, id := range slices.Sorted(maps.Keys(of)) {
		slices.SortFunc(of[id], func(a, b *session) int { return int(max(a.start, a.due) - max(b.start, b.due)) })
		out = append(out, of[id])
	}
	return out
}

func (l *ledger) longestUnreached(sessions []*session) (longest unreached) {
	var now unreached
	for _, s := range sessions {
		at := max(s.start, s.due)
		switch {
		case l.wasRouted(s):
			now = unreached{}
		case s.lost < 0 || !l.lost[s.lost].unrouted() || l.lost[s.lost].cause.Found && l.lost[s.lost].cause.group == "":
			// Refused for another reason, or explained by what was done to the agent or the proxy.
		case now.sessions == 0 || len(l.podSuspects(l.pods[s.agent], span{now.to, at})) > 0:
			now = unreached{span{at, at}, 1, s.agent, []int32{s.proxy}}
		default:
			now.to, now.sessions = at, now.sessions+1
			now.through = append(now.through, s.proxy)
		}
		if now.length() > longest.length() {
			longest = now
		}
	}
	return longest
}
