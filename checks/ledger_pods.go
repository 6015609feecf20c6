package checks

import (
	"time"

	"shakedown.dev/shakedown/history"
)

// never marks a moment that did not come.
const never = time.Duration(-1)

// pod is the life of one pod.
type pod struct {
	ref      history.PodRef
	created  time.Duration
	deleting time.Duration
	grace    time.Duration
	evicted  time.Duration
	failed   time.Duration
	gone     time.Duration
	reason   string
	ip       string
	ready    []span // to is never while it lasts
	exits    []containerExit
	probes   []probe
	ends     []podEnd // filled by finish
}

type containerExit struct {
	at           time.Duration
	container    string
	exit, signal int
	reason       string
}

type probe struct {
	from, at time.Duration
	ok       bool
	unrouted bool // the proxy answered and found no way to any agent
	untried  bool // there was no agent to ask it for
}

// pod gives the number of the pod, adding it at first sight; -1 for an empty reference.
func (l *ledger) pod(ref history.PodRef) int32 {
	key := ref.UID
	if key == "" {
		key = ref.Name
	}
	if key == "" {
		return -1
	}
	i, ok := l.podIndex[key]
	if !ok {
		i = int32(len(l.pods))
		l.podIndex[key] = i
		l.pods = append(l.pods, &pod{ref: ref, created: never, deleting: never, evicted: never, failed: never, gone: never})
		return i
	}
	l.pods[i].ref = merge(l.pods[i].ref, ref)
	return i
}

// merge fills in what one sight of a pod knew and another did not.
func merge(a, b history.PodRef) history.PodRef {
	for _, f := range []struct{ to, from *string }{
		{&a.Name, &b.Name}, {&a.UID, &b.UID}, {&a.Component, &b.Component}, {&a.Node, &b.Node}, {&a.Revision, &b.Revision},
	} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	return a
}

func (l *ledger) addPodChange(at time.Duration, d history.PodChange) {
	i := l.pod(d.Pod)
	if i < 0 {
		return
	}
	p := l.pods[i]
	switch d.State {
	case history.PodCreated:
		first(&p.created, at)
	case history.PodReady:
		if n := len(p.ready); n == 0 || p.ready[n-1].to != never {
			p.ready = append(p.ready, span{at, never})
		}
	case history.PodUnready:
		p.unready(at)
	case history.PodDeleting:
		if p.deleting == never {
			p.deleting, p.grace = at, d.Grace
		}
		p.unready(at)
	case history.PodEvicted:
		first(&p.evicted, at)
	case history.PodFailed:
		first(&p.failed, at)
		p.unready(at)
	case history.PodGone, history.PodDone:
		first(&p.gone, at)
		p.unready(at)
	}
	if d.IP != "" {
		p.ip = d.IP
	}
	if d.Reason != "" {
		p.reason = d.Reason
	}
}

func first(t *time.Duration, at time.Duration) {
	if *t == never {
		*t = at
	}
}

func (p *pod) unready(at time.Duration) {
	if n := len(p.ready); n > 0 && p.ready[n-1].to == never {
		p.ready[n-1].to = at
	}
}

func (l *ledger) addContainerEnd(at time.Duration, d history.ContainerEnd) {
	if i := l.pod(d.Pod); i >= 0 && !d.Init {
		l.pods[i].exits = append(l.pods[i].exits, containerExit{at, d.Container, d.Exit, d.Signal, d.Reason})
	}
}

func (l *ledger) addProbe(at time.Duration, d history.Probe) {
	l.measured = max(l.measured, at)
	l.probes++
	if i := l.pod(d.Pod); i >= 0 {
		p := l.pods[i]
		p.probes = append(p.probes, probe{at - d.Took, at, d.Error == "" && d.Failed == "", d.Failed == history.PhaseRoute, d.Error == history.NoAgent})
	}
}

type replicaSteps struct {
	desired, ready steps
	wants          []wanted
}

func (l *ledger) addReplicas(at time.Duration, d history.Replicas) {
	r := l.replicas[d.Component]
	r.desired.set(at, d.Desired)
	r.ready.set(at, d.Ready)
	if n := len(r.wants); d.Revision != "" && (n == 0 || r.wants[n-1].revisions != d.Revision) {
		r.wants = append(r.wants, wanted{at, d.Revision})
	}
	l.replicas[d.Component] = r
}

func (l *ledger) addEndpoints(at time.Duration, d history.Endpoints) {
	if d.Component == "" {
		return
	}
	services := l.endpoints[d.Component]
	if services == nil {
		services = map[string]steps{}
		l.endpoints[d.Component] = services
	}
	s := services[d.Service]
	s.set(at, len(d.Ready))
	services[d.Service] = s
	for _, ref := range d.Ready {
		l.pod(ref)
	}
}

// finish closes what still lasts at the end and finds out how the pod ended.
func (p *pod) finish(l *ledger) {
	p.unready(l.last)
	p.ends = findEnds(p, l)
}

// life is from the pod's first sight to its end, or to the end of the run.
func (p *pod) life(last time.Duration) span {
	to := last
	if p.gone != never {
		to = p.gone
	}
	return span{max(p.created, 0), to}
}
