package checks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"shakedown.dev/shakedown/history"
)

// The ways in which a pod, or the process in it, ends; the words of gates.HolderEnds.
const (
	endAlive    = "alive"
	endDeleted  = "deleted"
	endKilled   = "killed"
	endEvicted  = "evicted"
	endNodeLost = "node-lost"
	endFailed   = "failed"
	endGone     = "gone"
	endUnknown  = "unknown"
)

// watchSkew is how much later than the thing itself a watch may tell of it.
const watchSkew = 2 * time.Second

// podEnd is one end of a pod or of its process (a container that restarts ends without the pod ending).
type podEnd struct {
	how    string
	crash  bool // the process ended although nobody asked the pod to
	span   span // from when it began to end until it was gone, or the run's end
	detail string
	by     []string // faults and rollouts that explain it; several: nobody can say which; none: by itself
}

func findEnds(p *pod, l *ledger) []podEnd {
	var ends []podEnd
	if e, ok := p.deletion(l); ok {
		ends = append(ends, e)
	}
	for _, x := range p.exits {
		if p.deleting == never || x.at < p.deleting {
			ends = append(ends, p.exitEnd(x))
		}
	}
	ends = append(ends, p.nodeLosses(l)...)
	for i := range ends {
		ends[i].by = l.whoEnded(p, ends[i])
	}
	slices.SortStableFunc(ends, func(a, b podEnd) int { return cmp.Compare(a.span.from, b.span.from) })
	return ends
}

// deletion is the end of the pod object: deleted, evicted, failed, or seen gone without more.
func (p *pod) deletion(l *ledger) (podEnd, bool) {
	begin := earliest(p.deleting, p.evicted, p.failed, p.gone)
	if begin == never {
		return podEnd{}, false
	}
	e := podEnd{how: endGone, span: span{begin, l.last}, detail: p.exitDetail()}
	if p.gone != never {
		e.span.to = p.gone
	}
	switch {
	case p.wasEvicted():
		e.how = endEvicted
	case p.deleting != never && p.grace == 0:
		e.how = endKilled
	case p.deleting != never:
		e.how = endDeleted
	case p.failed != never:
		e.how = endFailed
	}
	return e, true
}

// wasEvicted says whether eviction began the end. A pod that is being deleted already can be evicted as
// well, which changes nothing for it.
func (p *pod) wasEvicted() bool {
	if p.evicted == never {
		return p.reason == "Evicted"
	}
	return p.deleting == never || p.evicted <= p.deleting+sameUpdate
}

// sameUpdate is how far apart a watch may tell of two things that came in one update of an object.
const sameUpdate = 250 * time.Millisecond

func earliest(times ...time.Duration) time.Duration {
	least := never
	for _, t := range times {
		if t != never && (least == never || t < least) {
			least = t
		}
	}
	return least
}

func (p *pod) exitDetail() string {
	if len(p.exits) == 0 {
		return ""
	}
	return p.exits[len(p.exits)-1].String()
}

// String says how a container ended, such as "exit 137 (signal 9, OOMKilled)".
func (x containerExit) String() string {
	s := fmt.Sprintf("exit %d", x.exit)
	switch {
	case x.unseen():
		return "ended unseen (" + x.reason + ")"
	case x.signal != 0 && x.reason != "":
		return fmt.Sprintf("%s (signal %d, %s)", s, x.signal, x.reason)
	case x.signal != 0:
		return fmt.Sprintf("%s (signal %d)", s, x.signal)
	case x.reason != "":
		return fmt.Sprintf("%s (%s)", s, x.reason)
	}
	return s
}

// sigkilled says whether the kernel was asked to end the process: 137 is how runtimes report signal 9.
func (x containerExit) sigkilled() bool { return !x.unseen() && (x.signal == 9 || x.exit == 137) }

// unseen is an end that the kubelet made up, with status 137: it had lost the container, or never made it
// (ContainerReasonStatusUnknown in pkg/kubelet/kubelet_pods.go).
func (x containerExit) unseen() bool { return x.reason == "ContainerStatusUnknown" }

func (p *pod) exitEnd(x containerExit) podEnd {
	how := endFailed
	if x.sigkilled() {
		how = endKilled
	}
	return podEnd{how: how, crash: true, span: span{x.at, x.at + watchSkew}, detail: "container " + x.container + ": " + x.String()}
}

// nodeLosses are the times in which the pod's node was not ready or gone.
func (p *pod) nodeLosses(l *ledger) []podEnd {
	var ends []podEnd
	life := p.life(l.last)
	down := never
	for _, c := range l.nodes[p.ref.Node] {
		switch {
		case c.state == history.NodeNotReady || c.state == history.NodeGone:
			first(&down, c.at)
		case c.state == history.NodeReady && down != never:
			ends = appendLoss(ends, life, span{down, c.at}, p.ref.Node)
			down = never
		}
	}
	if down != never {
		ends = appendLoss(ends, life, span{down, l.last}, p.ref.Node)
	}
	return ends
}

func appendLoss(ends []podEnd, life, down span, node string) []podEnd {
	// Kubernetes knows only after its grace period (40 s by default) that a node is lost.
	if down = down.clip(life); down.length() == 0 {
		return ends
	}
	return append(ends, podEnd{how: endNodeLost, span: down, detail: "node " + node + " not ready"})
}

// whoEnded names the faults and rollouts that can have ended the pod so. A fault aimed at this very
// pod explains it alone; a fault on its node and a rollout that replaces it may both, and then both are named.
func (l *ledger) whoEnded(p *pod, e podEnd) []string {
	var might []string
	for _, f := range l.faults {
		aim := f.aim(p)
		if f.inject == never || aim == aimNone || e.span.from < l.attempted(f) {
			continue
		}
		if aim == aimPod && near(f.force(l.last), e.span.from) {
			return []string{"fault " + f.ID}
		}
		acts := l.acts(f)
		if aim == aimNode && !f.endsPods() {
			acts.to += nodeReturn
		}
		if near(acts, e.span.from) {
			might = append(might, "fault "+f.ID)
		}
	}
	if e.how == endEvicted && len(might) > 0 {
		return might // a rollout deletes, it does not evict
	}
	if e.how != endNodeLost {
		might = append(might, l.rolloutsBehind(p, e.span.from, func(r *rollout, wants string) bool { return r.replaces(p, wants) })...)
	}
	return might
}

// attempted is when the fault's timeline entry began, before which it cannot have done anything; the
// injection is written down when it is done, which may be later than its first effect.
func (l *ledger) attempted(f *fault) time.Duration {
	if e, ok := l.entries[entryName(f.Entry)]; ok {
		for _, r := range e.runs {
			if r.contains(f.inject) || r.to == f.inject {
				return r.from
			}
		}
	}
	return never
}

// nodeReturn is how long after a node is back its kubelet may still tell of containers that ended with it.
const nodeReturn = 15 * time.Second

// near says whether a moment lies in a stretch, with room for a late watch.
func near(s span, t time.Duration) bool { return t >= s.from-watchSkew && t <= s.to+watchSkew }

// aim is how closely a fault's targets describe a pod.
type aim int

const (
	aimNone aim = iota
	aimComponent
	aimNode
	aimPod
)

func (f *fault) aim(p *pod) aim {
	best := aimNone
	for _, t := range f.Targets {
		best = max(best, aimOf(t, p))
	}
	return best
}

func aimOf(t history.Target, p *pod) aim {
	switch {
	case p.ref.UID != "" && (t.UID == p.ref.UID || t.Pod.UID == p.ref.UID):
		return aimPod
	case t.Kind == "pod" && t.UID == "" && t.Pod.UID == "" && t.Name == p.ref.Name:
		return aimPod
	case t.Kind == "node" && t.Name != "" && t.Name == p.ref.Node:
		return aimNode
	case t.Kind != "pod" && t.Kind != "container" && t.Kind != "node" && p.ref.Component != "" &&
		(t.Name == p.ref.Component || t.Pod.Component == p.ref.Component && t.Pod.UID == ""):
		return aimComponent
	}
	return aimNone
}

// endNear gives the pod's first end that overlaps w, with room for a late watch.
func (p *pod) endNear(w span) (podEnd, bool) {
	for _, e := range p.ends {
		if e.span.overlaps(span{w.from - watchSkew, w.to + watchSkew}) {
			return e, true
		}
	}
	return podEnd{}, false
}
