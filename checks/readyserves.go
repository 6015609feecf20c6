package checks

import (
	"fmt"
	"time"
)

// How long a pod may be ready while its canaries fail. One that has served is given ten canaries in a
// row; a new one may have to wait for agents to find it, which takes them up to a minute.
const (
	deadAfterServing  = 10 * time.Second
	deadSinceTheStart = 60 * time.Second
)

// readyServes: no pod that nothing was done to stayed ready while canaries through it failed. A new pod
// that only waited for its tunnels is told of and does not fail the run: what it costs is in the capacity.
func readyServes(m *Measures) []Finding {
	probed := false
	var out []Finding
	for _, p := range m.l.pods {
		if len(p.probes) == 0 || len(p.ready) == 0 {
			continue
		}
		probed = true
		if f, ok := m.l.readyFinding(p); ok {
			out = append(out, f)
		}
	}
	switch {
	case !probed:
		return one(Inconclusive, "no pod was both watched and probed")
	case len(out) == 0:
		return one(Pass, "no pod stayed ready for %s while its canaries failed", deadAfterServing)
	}
	return out
}

// readyFinding is about the longest stretch that nothing excuses, else about the longest in which the pod
// waited for a tunnel.
func (l *ledger) readyFinding(p *pod) (worst Finding, any bool) {
	var dead, waited time.Duration
	for _, s := range p.silences(l) {
		d := s.length()
		if why, ok := l.waitsForTunnel(p, s); ok {
			if dead == 0 && d > waited && d >= deadAfterServing {
				waited, any = d, true
				worst = Finding{Outcome: Pass, Note: true, Summary: why}
			}
			continue
		}
		if d > dead && d >= s.allowed {
			dead, any = d, true
			worst = Finding{Outcome: Fail, Summary: fmt.Sprintf("pod %s was ready but served nobody for %s from %s on", podName(p), clock(d), clock(s.from))}
		}
	}
	return worst, any
}

// silence is a stretch in which a pod was ready and every canary through it failed.
type silence struct {
	span
	allowed  time.Duration
	unrouted bool // each of them got as far as the proxy and no further: it had no route
	served   bool // before it, a canary had gone through
	serves   bool // after it, one goes through again
}

// silences leaves out what ends and faults explain, of the pod or of the auths that it depends on, and canaries that were
// never sent, for want of an agent.
func (p *pod) silences(l *ledger) []silence {
	var out []silence
	allowed := deadSinceTheStart
	if p.ready[0].from <= l.loadBegan { // whoever could find it has had the time
		allowed = deadAfterServing
	}
	served, open := false, false
	for _, pr := range p.probes {
		switch {
		case pr.ok:
			for i := range out {
				out[i].serves = true
			}
			served, open, allowed = true, false, deadAfterServing
		case pr.untried || !inAny(p.ready, pr.at) || l.disturbed(p, span{pr.from, pr.at}):
			open = false
		case !open:
			out = append(out, silence{span{pr.from, pr.at}, allowed, pr.unrouted, served, false})
			open = true
		default:
			last := &out[len(out)-1]
			last.to, last.unrouted = pr.at, last.unrouted && pr.unrouted
		}
	}
	return out
}

// disturbed says whether something was done to a proxy, or to what it needs, within a span.
func (l *ledger) disturbed(p *pod, w span) bool {
	return len(l.podSuspects(p, w)) > 0 || len(l.authSuspects(w)) > 0
}

// waitsForTunnel says in words that a new pod, which served later, was only without tunnels: it never had
// one before, or each session that it knew no way for was to an agent that had none to it yet.
func (l *ledger) waitsForTunnel(p *pod, s silence) (string, bool) {
	b, ok := l.birthOf(p, s.from, func(string) bool { return true })
	if !ok || !s.unrouted || !s.serves {
		return "", false
	}
	if !s.served {
		first := s.to
		for _, pr := range p.probes {
			if pr.ok && pr.at > s.to {
				first = pr.at
				break
			}
		}
		return fmt.Sprintf("pod %s was ready %.1f s before its first tunnel: it %s", podName(p), (first - max(p.ready[0].from, b.at)).Seconds(), b.text), true
	}
	n, why := 0, ""
	for i := range l.lost {
		ls := &l.lost[i]
		x := &l.sessions[ls.session]
		if !ls.unrouted() || x.proxy < 0 || l.pods[x.proxy] != p || !s.contains(max(x.start, x.due)) {
			continue
		}
		if ls.cause.group == "" {
			return "", false
		}
		n++
		why = ls.cause.Text
	}
	return fmt.Sprintf("pod %s was ready without a tunnel for %s from %s on: %s", podName(p), clock(s.length()), clock(s.from), why), n > 0
}
