package checks

import (
	"fmt"
	"time"

	"shakedown.dev/shakedown/history"
)

// listed is a look at the list of nodes that still had one whose pod was gone.
type listed struct {
	at   time.Duration
	host string
	pod  int32
}

// listedFor is how long Teleport lists a node of which it hears nothing more (apidefaults.ServerAnnounceTTL, 10 min);
// listedSlack is for the beats in between.
const (
	listedFor   = 10 * time.Minute
	listedSlack = 10 * time.Second
)

// deadNodesForgotten: no node stayed in Teleport's list for longer than it should after its pod had gone. Sessions
// sent to such a node are refused, for as long as it is listed.
func deadNodesForgotten(m *Measures) []Finding {
	bound := orDefault(m.Start.Bounds.Listed, listedFor)
	var out []Finding
	young := 0
	for _, n := range m.l.listed {
		p := m.l.pods[n.pod]
		if p.gone == never || n.at-p.gone <= bound+listedSlack {
			young++
			continue
		}
		out = append(out, Finding{Outcome: Fail, Summary: fmt.Sprintf("node %s was still listed %s after its pod had gone, %s is allowed", n.host, clock(n.at-p.gone), clock(bound))})
	}
	if len(out) == 0 && young > 0 {
		return []Finding{{Outcome: Pass, Note: true, Summary: fmt.Sprintf("%d nodes whose pods are gone were still listed, as Teleport does for %s", young, clock(bound))}}
	}
	return out
}

// addListed takes a look that found a dead node listed.
func (l *ledger) addListed(at time.Duration, a history.Agent) {
	if pod := l.pod(a.Pod); pod >= 0 {
		l.listed = append(l.listed, listed{at, firstText(a.Host, a.UUID), pod})
	}
}
