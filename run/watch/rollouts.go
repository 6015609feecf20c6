package watch

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// rollouts knows what revision each workload had before the present rollout: without that, a system that is
// not changed yet looks like one whose rollout is done.
type rollouts struct {
	seen map[types.UID][]revisionSeen // workload: its revisions, in order
	base map[types.UID]string         // workload: its revision when the last rollout began, or the first one seen
	open *history.Rollout             // its start
	told map[string]history.Rollout   // component
}

type revisionSeen struct {
	at       time.Duration
	revision string
}

func newRollouts() rollouts {
	return rollouts{seen: map[types.UID][]revisionSeen{}, base: map[types.UID]string{}, told: map[string]history.Rollout{}}
}

// revision is what a workload's controller wants from now on.
func (r *rollouts) revision(at time.Duration, l workload) {
	seen := r.seen[l.uid]
	if l.revision == "" || len(seen) > 0 && seen[len(seen)-1].revision == l.revision {
		return
	}
	r.seen[l.uid] = append(seen, revisionSeen{at, l.revision})
	if _, ok := r.base[l.uid]; !ok {
		r.base[l.uid] = l.revision
	}
}

// changing are the actions that begin a rollout.
var changing = []string{"helmUpgrade", "helmRollback", "restart", "scale"}

// entry sets the base as soon as an entry begins that will change the system: conditions that count
// against it may be asked before the rollout's own first event.
func (r *rollouts) entry(at time.Duration, e history.Entry) {
	if e.State == history.EntryStarted && slices.Contains(changing, e.Action) {
		r.rebase(at)
	}
}

func (r *rollouts) read(at time.Duration, d history.Rollout) {
	switch {
	case d.Verb == "install":
	case d.Stage == history.RolloutStart:
		r.rebase(at)
		r.open, r.told = &d, map[string]history.Rollout{}
	case d.Stage == history.RolloutEnd && r.open != nil && r.open.ID == d.ID:
		r.open = nil
	}
}

// rebase makes what was wanted at a moment what the rollout began with. A watch may have told of a newer
// revision in the meantime, so the present one will not do.
func (r *rollouts) rebase(at time.Duration) {
	for workload, seen := range r.seen {
		for _, s := range seen {
			if s.at <= at {
				r.base[workload] = s.revision
			}
		}
	}
}

// counts are a component's pods by revision.
type counts struct {
	changed             []workload // those whose controllers want another revision than before the rollout
	desired             int        // replicas of these
	updated, ready, old int        // pods they want, of these ready; pods that no workload wants
	total               int
}

// count counts against what the controllers want now. A pod that is ending counts as old or not at all.
func (s *State) count(component string) (c counts) {
	wanted := map[string]bool{} // revision: of a workload that changed
	for _, l := range s.workloads[component] {
		changed := l.revision != "" && l.revision != s.rollout.base[l.uid]
		wanted[l.revision] = changed
		if changed {
			c.changed = append(c.changed, l)
			c.desired += l.desired
		}
	}
	for _, p := range s.list(component) {
		if p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed {
			continue
		}
		c.total++
		changed, known := wanted[p.Revision]
		switch {
		case !known:
			c.old++
		case changed && !p.Terminating:
			c.updated++
			if p.Ready {
				c.ready++
			}
		}
	}
	return c
}

// view is how far the present rollout of a component has come; before it began nothing is updated.
func (s *State) view(component string) gates.RolloutView {
	c := s.count(component)
	if len(c.changed) == 0 {
		return gates.RolloutView{}
	}
	v := gates.RolloutView{Started: true, Old: c.old, Updated: share(c.updated, c.desired), Ready: share(c.ready, c.desired)}
	v.Done = c.old == 0 && c.ready >= c.desired
	for _, l := range c.changed { // their controllers wait for more than readiness
		v.Done = v.Done && l.settled() == nil
	}
	return v
}

func share(n, of int) float64 {
	if of <= 0 {
		return 1
	}
	return min(float64(n)/float64(of), 1)
}

// progress are the counts of the rollout that is open, of components whose counts changed since they were
// asked for last.
func (s *State) progress() (out []history.Rollout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rollout.open == nil {
		return nil
	}
	for _, c := range slices.Sorted(maps.Keys(s.workloads)) {
		n := s.count(c)
		if len(n.changed) == 0 {
			continue
		}
		p := *s.rollout.open
		p.Stage, p.Component, p.Hash, p.Error = history.RolloutProgress, c, n.changed[0].revision, ""
		p.Updated, p.UpdatedReady, p.Old, p.Total = n.updated, n.ready, n.old, n.total
		if s.rollout.told[c] != p {
			s.rollout.told[c] = p
			out = append(out, p)
		}
	}
	return out
}
