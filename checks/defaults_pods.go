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

// readyServes: no pod that nothing was done to stayed ready while canaries through it failed.
func readyServes(m *Measures) []Finding {
	probed := false
	var out []Finding
	for _, p := range m.l.pods {
		if len(p.probes) == 0 || len(p.ready) == 0 {
			continue
		}
		probed = true
		if dead, from := p.deadButReady(m.l); dead > 0 {
			out = append(out, Finding{Outcome: Fail,
				Summary: fmt.Sprintf("pod %s was ready but served nobody for %s from %s on", podName(p), clock(dead), clock(from))})
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

// deadButReady is the longest time in a row in which canaries failed while the pod was ready, outside
// of its end and of faults that act on it; 0 where that was no longer than is allowed.
func (p *pod) deadButReady(l *ledger) (worst, at time.Duration) {
	from, allowed := never, deadSinceTheStart
	if p.ready[0].from <= l.loadBegan { // whoever could find it has had the time
		allowed = deadAfterServing
	}
	for _, pr := range p.probes {
		if pr.ok {
			allowed = deadAfterServing
		}
		if pr.ok || !inAny(p.ready, pr.at) || len(l.podSuspects(p, span{pr.from, pr.at})) > 0 {
			from = never
			continue
		}
		first(&from, pr.from)
		if d := pr.at - from; d > worst && d >= allowed {
			worst, at = d, from
		}
	}
	return worst, at
}

// podsStopInTime: no pod that was given time to end had to be killed after it.
func podsStopInTime(m *Measures) []Finding {
	stopped, unknown := 0, 0
	var out []Finding
	for _, p := range m.l.pods {
		if p.deleting == never || p.grace == 0 || p.gone == never || p.ref.Component == "" {
			continue
		}
		x, known := p.lastExit()
		switch {
		case !known:
			unknown++
		case x.sigkilled() && x.at-p.deleting >= p.grace-killSkew:
			out = append(out, Finding{Outcome: Fail, Summary: fmt.Sprintf("pod %s did not stop within its %s and was killed (%s)", podName(p), p.grace, x)})
		default:
			stopped++
		}
	}
	switch {
	case len(out) > 0:
		return out
	case stopped > 0:
		return one(Pass, "%d pods that were asked to stop did so in time", stopped)
	case unknown > 0:
		return one(Inconclusive, "%d pods were asked to stop, and how they ended was not seen", unknown)
	}
	return nil
}

// killSkew allows for the kubelet killing a little early by our clock.
const killSkew = 3 * time.Second

// lastExit is the last container end after the pod was asked to stop.
func (p *pod) lastExit() (containerExit, bool) {
	for i := len(p.exits) - 1; i >= 0; i-- {
		if p.exits[i].at >= p.deleting {
			return p.exits[i], true
		}
	}
	return containerExit{}, false
}

// nothingEndsByItself: no process of the system crashed, and nobody but the run's own faults and
// rollouts ended a pod. A crash is the system's; another hand on the cluster makes the run doubtful.
func nothingEndsByItself(m *Measures) []Finding {
	load := span{max(m.l.loadBegan, 0), m.l.judgedTo()}
	watched := 0
	var out []Finding
	for _, p := range m.l.pods {
		if !m.partOfSystem(p) || p.created == never && len(p.ready) == 0 {
			continue
		}
		watched++
		for _, e := range p.ends {
			if len(e.by) > 0 || !load.contains(e.span.from) {
				continue
			}
			f := Finding{Summary: endText(p, e)}
			if e.crash {
				f.Outcome = Fail
			}
			out = append(out, f)
		}
	}
	switch {
	case watched == 0:
		return one(Inconclusive, "no pod of the system was watched")
	case len(out) == 0:
		return one(Pass, "none of %d pods ended but by the run's own doing", watched)
	}
	return out
}

// partOfSystem says whether the pod belongs to what is tested, rather than to a hook or to the cluster.
func (m *Measures) partOfSystem(p *pod) bool {
	_, desired := m.Start.Desired[p.ref.Component]
	return desired || p.ref.Component == "agent"
}
