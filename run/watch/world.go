package watch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
)

var _ gates.World = (*State)(nil)

// Rollout says how far a component's rollout is. Before one began nothing is updated; the counts of the last
// one stand until the next begins.
func (s *State) Rollout(component string) (gates.RolloutView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.seen:
		return gates.RolloutView{}, errUnseen
	case len(s.workloads[component]) == 0:
		return gates.RolloutView{}, fmt.Errorf("there is no workload of component %s", component)
	}
	return s.view(component), nil
}

// selecting are the keys of a selector, and what each is of a pod.
func (s *State) selecting() map[string]func(pods.Pod) string {
	return map[string]func(pods.Pod) string{
		"component": func(p pods.Pod) string { return p.Component },
		"node":      func(p pods.Pod) string { return p.Node },
		"name":      func(p pods.Pod) string { return p.Name },
		"version":   func(p pods.Pod) string { return p.Version },
		"revision": func(p pods.Pod) string {
			if s.wanted(p) {
				return "new"
			}
			return "old"
		},
	}
}

// Pods counts the pods that a selector of component, revision (old, new), node, name and version selects.
func (s *State) Pods(selector map[string]string) (gates.PodsView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen {
		return gates.PodsView{}, errUnseen
	}
	keys := s.selecting()
	for key := range selector {
		if keys[key] == nil {
			return gates.PodsView{}, fmt.Errorf("pods cannot be selected by %q, only by %s", key, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		}
	}
	var v gates.PodsView
	now := s.to.Now()
	for _, p := range s.list(selector["component"]) {
		if !selects(keys, selector, p) {
			continue
		}
		v.Total++
		if p.Ready && !p.Terminating {
			v.Ready++
		}
		if p.Terminating {
			v.Terminating++
		}
		if s.serving.serves(p.UID, now) {
			v.Serving++
		}
	}
	return v, nil
}

func selects(keys map[string]func(pods.Pod) string, selector map[string]string, p pods.Pod) bool {
	for key, want := range selector {
		if keys[key](p) != want {
			return false
		}
	}
	return true
}

// errNoLoad is before the first session.
var errNoLoad = errors.New("no session has begun yet")

// Sessions counts the load's sessions, from what was recorded of them.
func (s *State) Sessions() (gates.SessionsView, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.load.any {
		return gates.SessionsView{}, errNoLoad
	}
	v := s.load.view
	v.Held = len(s.load.open)
	return v, nil
}

// Recovered says whether the system has recovered from all that was done to it, as the checks define it.
// Without RunStart.Desired nobody knows what to recover to.
func (s *State) Recovered() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recovery.watch == nil {
		return false, errors.New("it is not known how many replicas were desired when the run started")
	}
	now := s.to.Now()
	for component := range s.desired {
		s.capacity(now, component) // canaries grow stale without an event
	}
	return s.recovery.watch.Recovered(now), nil
}

// Elapsed is the time since the run's start.
func (s *State) Elapsed() time.Duration { return s.to.Now() }

// loadCounts count sessions from their events.
type loadCounts struct {
	any  bool
	open map[string]struct{}
	view gates.SessionsView // but for Held
}

func newLoadCounts() loadCounts { return loadCounts{open: map[string]struct{}{}} }

func (l *loadCounts) opened(d history.SessionOpened) {
	l.any = true
	l.open[d.ID] = struct{}{}
	l.view.Opened++
}

func (l *loadCounts) ended(d history.Session) {
	l.any = true
	delete(l.open, d.ID)
	switch d.Class {
	case history.Clean:
		l.view.Clean++
	case history.Refused:
		l.view.Refused++
	case history.Dropped:
		l.view.Dropped++
	case history.Stalled:
		l.view.Stalled++
	}
}
