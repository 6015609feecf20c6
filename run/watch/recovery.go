package watch

import (
	"slices"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/history"
)

// recovery feeds the checks' own watch over recovery with what is recorded: nothing that they will not see
// afterwards enters it.
type recovery struct {
	watch *checks.RecoveryWatch // nil until it is known what was desired
	open  map[string]disturbance
	over  time.Duration // end of the last one that is over
}

// disturbance is a fault or rollout that is under way.
type disturbance struct {
	entry    string
	endsPods bool // over with its entry, not when it is healed
}

func newRecovery() recovery { return recovery{open: map[string]disturbance{}} }

// endsPods are the faults that hurt only by ending pods, as the checks have them: a drained node stays
// cordoned and hurts nobody by it.
var endsPods = []string{"podDelete", "podEvict", "containerSignal", "nodeDrain", "nodeTaint", "nodeCordon"}

func (r *recovery) components(names []string) {
	if len(names) > 0 {
		r.watch = checks.NewRecoveryWatch(names)
	}
}

func (r *recovery) opened(kind string, due, took time.Duration) {
	if r.watch != nil {
		r.watch.Opened(kind, due, took)
	}
}

func (r *recovery) capacity(at time.Duration, component string, serving, desired int) {
	if r.watch != nil {
		r.watch.Capacity(at, component, serving, desired)
	}
}

func (r *recovery) fault(at time.Duration, d history.Fault) {
	id := "fault " + d.ID
	switch d.Stage {
	case history.FaultInject:
		r.begin(at, id, disturbance{entry: d.Entry, endsPods: slices.Contains(endsPods, d.Name)})
	case history.FaultHealed:
		if !r.open[id].endsPods {
			r.end(at, id)
		}
	case history.FaultNotHealed:
		r.end(at, id)
	}
}

// entry ends the faults that are over with their entry.
func (r *recovery) entry(e history.Event, d history.Entry) {
	if d.State != history.EntryEnded && d.State != history.EntryMissed {
		return
	}
	for id, f := range r.open {
		if f.endsPods && (id == "fault "+e.Subject || f.entry == d.Name) {
			r.end(e.At, id)
		}
	}
}

func (r *recovery) rollout(at time.Duration, d history.Rollout) {
	switch {
	case d.Verb == "install":
	case d.Stage == history.RolloutStart:
		r.begin(at, "rollout "+d.ID, disturbance{})
	case d.Stage == history.RolloutEnd:
		r.end(at, "rollout "+d.ID)
	}
}

func (r *recovery) begin(at time.Duration, id string, d disturbance) {
	if _, open := r.open[id]; open || r.watch == nil {
		return
	}
	r.open[id] = d
	r.watch.Changes(at)
}

func (r *recovery) end(at time.Duration, id string) {
	if _, open := r.open[id]; !open {
		return
	}
	delete(r.open, id)
	r.over = max(r.over, at)
	if len(r.open) == 0 {
		r.watch.ChangesOver(r.over)
	}
}

// serving is what canaries say of each pod, and what the watch says where no canary goes.
type serving struct {
	interval time.Duration
	canaries map[string]canary // pod UID
	probed   map[string]bool   // component
	ready    map[string]map[string]bool
	replicas map[string]history.Replicas
}

type canary struct {
	component string
	at        time.Duration
	ok        bool
}

func newServing() serving {
	return serving{interval: time.Second, canaries: map[string]canary{}, probed: map[string]bool{},
		ready: map[string]map[string]bool{}, replicas: map[string]history.Replicas{}}
}

func (v *serving) probe(at time.Duration, d history.Probe) {
	v.probed[d.Pod.Component] = true
	if old, ok := v.canaries[d.Pod.UID]; ok && old.at > at {
		return
	}
	v.canaries[d.Pod.UID] = canary{d.Pod.Component, at, d.Error == "" && d.Failed == ""}
}

func (v *serving) pod(d history.PodChange) {
	c, uid := d.Pod.Component, d.Pod.UID
	if v.ready[c] == nil {
		v.ready[c] = map[string]bool{}
	}
	switch d.State {
	case history.PodReady:
		v.ready[c][uid] = true
	case history.PodUnready, history.PodDeleting, history.PodFailed:
		v.ready[c][uid] = false
	case history.PodGone, history.PodDone:
		delete(v.ready[c], uid)
		delete(v.canaries, uid)
	}
}

// serves says whether the pod's last canary went through, within the time in which the next should have come.
func (v *serving) serves(uid string, now time.Duration) bool {
	c := v.canaries[uid]
	return c.ok && now-c.at <= 2*v.interval+v.interval/2
}

// capacity tells the recovery how many pods of a component serve at a moment: those canaries go through,
// or else those ready behind its one Service, or else those ready.
func (s *State) capacity(at time.Duration, component string) {
	want, known := s.serving.replicas[component]
	desired := want.Desired
	if !known || desired == 0 {
		desired = s.desired[component]
	}
	s.recovery.capacity(at, component, s.servingNow(at, component), desired)
}

func (s *State) servingNow(at time.Duration, component string) (n int) {
	if s.serving.probed[component] {
		for uid, c := range s.serving.canaries {
			if c.component == component && s.serving.serves(uid, at) {
				n++
			}
		}
		return n
	}
	if services := s.behind[component]; len(services) == 1 {
		for _, e := range services {
			return len(e.Ready)
		}
	}
	for _, ready := range s.serving.ready[component] {
		if ready {
			n++
		}
	}
	return n
}
