package checks

import (
	"fmt"
	"time"
)

// unreadyAllowed is how long a pod that served may say that it is not ready, while each canary goes through it. The
// kubelet's probes and Teleport's own 10 s of recovering lie within.
const unreadyAllowed = 12 * time.Second

// servingIsReady: no proxy that was ready once, and to which nothing was done, was kept out of its Service while it
// served everybody: capacity that is there and that nobody gets. Where the auth was away it is only told of.
func servingIsReady(m *Measures) []Finding {
	looked := false
	var out []Finding
	for _, p := range m.l.pods {
		if len(p.probes) == 0 || len(p.ready) == 0 {
			continue
		}
		looked = true
		if s := p.longestUnready(m.l); s.length() >= unreadyAllowed {
			f := Finding{Outcome: Fail, Summary: fmt.Sprintf("pod %s served but was not ready for %s from %s on: its Service sent nobody there", podName(p), clock(s.length()), clock(s.from))}
			if len(m.l.authSuspects(span{s.from - unreadyAllowed, s.from})) > 0 {
				f.Outcome, f.Note = Pass, true
				f.Summary += "; its auth had been away"
			}
			out = append(out, f)
		}
	}
	if looked && len(out) == 0 {
		return one(Pass, "no pod that served was kept out of its Service for %s", unreadyAllowed)
	}
	return out
}

// longestUnready is the longest stretch of canaries that went through the pod, after it was ready for the first time
// and before it was to end, in which it was not ready.
func (p *pod) longestUnready(l *ledger) (longest span) {
	var now span
	open := false
	for _, pr := range p.probes {
		served := pr.ok && pr.at > p.ready[0].from && !inAny(p.ready, pr.at) && (p.deleting == never || pr.at < p.deleting)
		if !served || len(l.podSuspects(p, span{pr.from, pr.at})) > 0 {
			open = false
			continue
		}
		if !open {
			now, open = span{pr.from, pr.at}, true
		}
		if now.to = pr.at; now.length() > longest.length() {
			longest = now
		}
	}
	return longest
}
