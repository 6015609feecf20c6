package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// birth is when what runs in a pod began, after the first change, and what made it begin.
type birth struct {
	at   time.Duration
	by   []string // none: it came in place of something that ended by itself
	text string   // such as "is new since 2m22s (rollout up)"
}

// birthOf gives the pod's birth as it stood at t. What was there before the first change is not new,
// and what began for no known reason explains nothing.
func (l *ledger) birthOf(p *pod, t time.Duration, container func(string) bool) (birth, bool) {
	change := l.firstChange()
	if change == never {
		return birth{}, false
	}
	for _, x := range slices.Backward(p.exits) {
		if x.at > t || x.at < change || !container(x.container) || p.deleting != never && x.at >= p.deleting {
			continue
		}
		by := l.whoEnded(p, p.exitEnd(x))
		return birth{x.at, by, fmt.Sprintf("began anew at %s (%s)", clock(x.at), firstText(strings.Join(by, " or "), "it ended by itself"))}, true
	}
	if p.created == never || p.created < change || p.created > t {
		return birth{}, false
	}
	by, why, ok := l.originOf(p)
	return birth{p.created, by, fmt.Sprintf("is new since %s (%s)", clock(p.created), why)}, ok
}

// originOf is what a pod was made for: in place of one of its revision that began to end or went at that
// moment, else by the rollout of its revision.
func (l *ledger) originOf(p *pod) (by []string, why string, ok bool) {
	nearest := watchSkew + 1
	for _, q := range l.pods {
		if q == p || q.ref.Component != p.ref.Component || q.ref.Revision != p.ref.Revision {
			continue
		}
		for _, e := range q.ends {
			if d := min((p.created - e.span.from).Abs(), (p.created - e.span.to).Abs()); d < nearest && !e.crash {
				nearest, by, ok = d, e.by, true
				why = firstText(strings.Join(e.by, " or "), podName(q)+" "+e.how+" by itself")
			}
		}
	}
	if ok {
		return by, why, true
	}
	by = l.rolloutsBehind(p, p.created, func(r *rollout, wants string) bool { return r.makes(p, wants) })
	return by, strings.Join(by, " or "), len(by) > 0
}

// pair is a proxy pod and an agent, between which there is a tunnel or not.
type pair struct{ proxy, agent int32 } // agent: its UUID, interned

// routes are the moments at which sessions were routed from a proxy to an agent, for the pairs that matter.
type routes struct {
	at     map[pair][]time.Duration
	agents map[int32]bool // all that are known
}

// findRoutes looks for the pairs of which a session was refused for want of a route.
func (l *ledger) findRoutes() {
	l.routes = routes{map[pair][]time.Duration{}, map[int32]bool{}}
	for uuid := range l.agents {
		l.routes.agents[l.strings.id(uuid)] = true
	}
	for i := range l.lost {
		if ls := &l.lost[i]; ls.unrouted() {
			s := &l.sessions[ls.session]
			l.routes.at[pair{s.proxy, s.agentID}] = nil
		}
	}
	for i := range l.sessions {
		s := &l.sessions[i]
		if s.agentID == 0 {
			continue
		}
		l.routes.agents[s.agentID] = true
		if at, wanted := l.routes.at[pair{s.proxy, s.agentID}]; wanted && l.wasRouted(s) {
			l.routes.at[pair{s.proxy, s.agentID}] = append(at, max(s.start, s.due))
		}
	}
	for _, at := range l.routes.at {
		slices.Sort(at)
	}
}

// unrouted says whether the proxy answered that it knows no way to the agent.
func (ls *lostSession) unrouted() bool {
	return ls.failed == history.PhaseRoute && ls.cut == history.CutUnrouted
}

// wasRouted says whether the session got as far as its agent.
func (l *ledger) wasRouted(s *session) bool {
	if s.open > 0 {
		return true
	}
	if s.lost < 0 {
		return false
	}
	failed := l.lost[s.lost].failed
	return failed == history.PhaseSSHNode || failed == history.PhaseShell
}

// routedWithin says whether anything went from the proxy to the agent in w. A canary does not say which
// agent it went to: it counts where there is only one.
func (l *ledger) routedWithin(k pair, w span) bool {
	at := l.routes.at[k]
	if i, _ := slices.BinarySearch(at, w.from); i < len(at) && at[i] < w.to {
		return true
	}
	return len(l.routes.agents) == 1 && slices.ContainsFunc(l.pods[k.proxy].probes, func(p probe) bool { return p.ok && w.contains(p.at) })
}

// noTunnelYet: the proxy found no way to the agent, because one of the two is so new that nothing had
// gone between them yet. Of two new ones it is the younger for which the tunnel had to wait.
func (l *ledger) noTunnelYet(ls *lostSession, s *session, w span) []suspect {
	if !ls.unrouted() || s.proxy < 0 || s.agentID == 0 {
		return nil
	}
	proxy := l.pods[s.proxy]
	agentName := l.strings.name(s.agentID)
	found := suspect{number: s.proxy, pod: proxy}
	b, ok := l.birthOf(proxy, w.from, func(string) bool { return true })
	if s.agent >= 0 {
		agent := l.pods[s.agent]
		agentName = podName(agent)
		if a, new := l.birthOf(agent, w.from, ls.container); new && (!ok || a.at > b.at) {
			found.number, found.pod, b, ok = s.agent, agent, a, true
		}
	}
	if !ok || l.routedWithin(pair{s.proxy, s.agentID}, span{b.at, w.from}) {
		return nil
	}
	found.by = b.by
	found.text = fmt.Sprintf("proxy %s %s and agent %s had no tunnel to it yet", podName(proxy), b.text, agentName)
	found.group = fmt.Sprintf("proxy %s %s and agents had no tunnel to it yet", podName(proxy), b.text)
	if found.number != s.proxy {
		found.text = fmt.Sprintf("agent %s %s and had no tunnel to proxy %s yet", agentName, b.text, podName(proxy))
		found.group = fmt.Sprintf("agent %s %s and did not have a tunnel to every proxy yet", agentName, b.text)
	}
	return []suspect{found}
}

// container says whether a container of the agents' pod is the one that this session's agent runs in:
// agent-3 is the one of the host that ends in -3.
func (ls *lostSession) container(name string) bool {
	i := strings.LastIndexByte(name, '-')
	return i < 0 || ls.agentHost == "" || strings.HasSuffix(ls.agentHost, name[i:])
}
