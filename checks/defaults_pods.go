package checks

import (
	"fmt"
	"time"
)

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
		case !known || x.unseen():
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
