package watch

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// rollouts knows what revision each component had before the present rollout: without that, a system that
// is not changed yet looks like one whose rollout is done.
type rollouts struct {
	seen map[string][]revisionSeen // component: its revisions, in order
	base map[string]string         // component: its revision when the last rollout began, or the first one seen
	open *history.Rollout          // its start
	told map[string]history.Rollout
}

type revisionSeen struct {
	at       time.Duration
	revision string
}

func newRollouts() rollouts {
	return rollouts{seen: map[string][]revisionSeen{}, base: map[string]string{}, told: map[string]history.Rollout{}}
}

// revision is what a component's controller wants from now on.
func (r *rollouts) revision(at time.Duration, component, revision string) {
	seen := r.seen[component]
	if revision == "" || len(seen) > 0 && seen[len(seen)-1].revision == revision {
		return
	}
	r.seen[component] = append(seen, revisionSeen{at, revision})
	if _, ok := r.base[component]; !ok {
		r.base[component] = revision
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
	for component, seen := range r.seen {
		for _, s := range seen {
			if s.at <= at {
				r.base[component] = s.revision
			}
		}
	}
}

// revisions counts a component's pods by revision.
type revisions struct {
	started             bool
	want                string
	updated, ready, old int // pods of the wanted revision, of these ready, of others
	total, desired      int
}

// count counts against what the controllers want now. A pod that is ending counts as old or not at all.
func (s *State) count(component string) revisions {
	all := replicasOf(component, s.workloads[component])
	r := revisions{want: all.Revision, desired: all.Desired}
	r.started = r.want != "" && r.want != s.rollout.base[component]
	for _, p := range s.list(component) {
		if p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed {
			continue
		}
		r.total++
		switch {
		case p.Revision != r.want:
			r.old++
		case p.Terminating:
		default:
			r.updated++
			if p.Ready {
				r.ready++
			}
		}
	}
	return r
}

// view is how far the present rollout of a component has come; before it began nothing is updated.
func (s *State) view(component string) gates.RolloutView {
	r := s.count(component)
	if !r.started {
		return gates.RolloutView{}
	}
	v := gates.RolloutView{Started: true, Old: r.old, Updated: share(r.updated, r.desired), Ready: share(r.ready, r.desired)}
	v.Done = r.old == 0 && r.ready >= r.desired
	for _, l := range s.workloads[component] {
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
		if !n.started {
			continue
		}
		p := *s.rollout.open
		p.Stage, p.Component, p.Hash, p.Error = history.RolloutProgress, c, n.want, ""
		p.Updated, p.UpdatedReady, p.Old, p.Total = n.updated, n.ready, n.old, n.total
		if s.rollout.told[c] != p {
			s.rollout.told[c] = p
			out = append(out, p)
		}
	}
	return out
}
