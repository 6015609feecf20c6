package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/teleport/pods"
)

// Settled is nil when every workload of the named components (none named: of all) is as it is wanted: seen
// by its controller, every replica updated, ready and available, and no other pod left. Else it says what
// is missing.
func (s *State) Settled(components ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen {
		return errUnseen
	}
	if len(components) == 0 {
		components = slices.Sorted(maps.Keys(s.workloads))
	}
	var errs []error
	for _, c := range components {
		if len(s.workloads[c]) == 0 {
			errs = append(errs, fmt.Errorf("%s has no workload", c))
			continue
		}
		for _, l := range s.workloads[c] {
			errs = append(errs, l.settled())
		}
		errs = append(errs, s.podsSettled(c))
	}
	return errors.Join(errs...)
}

var errUnseen = errors.New("the cluster has not been seen yet")

func (l workload) settled() error {
	switch {
	case !l.observed:
		return fmt.Errorf("%s %s: its controller has not seen the change yet", l.kind, l.name)
	case l.updated != l.desired || l.ready != l.desired || l.available != l.desired || l.total != l.desired:
		return fmt.Errorf("%s %s: of %d replicas %d are updated, %d ready, %d available; there are %d",
			l.kind, l.name, l.desired, l.updated, l.ready, l.available, l.total)
	}
	return nil
}

// podsSettled looks at the pods themselves: controllers do not count those that are still ending, and hear
// late of one that is gone.
func (s *State) podsSettled(component string) error {
	var left []string
	ready, desired := 0, replicasOf(component, s.workloads[component]).Desired
	for _, p := range s.list(component) {
		switch {
		case p.Terminating, p.Phase == corev1.PodRunning && !s.wanted(p):
			left = append(left, p.Name)
		case p.Ready:
			ready++
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: still there: %s", component, strings.Join(left, ", "))
	}
	if ready != desired {
		return fmt.Errorf("%s: %d of %d pods are ready", component, ready, desired)
	}
	return nil
}

// wanted says whether a pod is of a revision that a workload of its component wants.
func (s *State) wanted(p pods.Pod) bool {
	return slices.ContainsFunc(s.workloads[p.Component], func(l workload) bool { return l.revision == p.Revision })
}

// Await asks now and every 200 ms until the answer is nil; when ctx ends it gives the last answer with ctx's error.
func (s *State) Await(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// Well is nil if the API server answers and each component that was desired at the run's start has a ready pod;
// in the middle of a rollout more cannot be asked for.
func (s *State) Well() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.apiDown {
		errs = append(errs, fmt.Errorf("the API server is down: %s", s.api.Error))
	}
	for _, c := range slices.Sorted(maps.Keys(s.desired)) {
		if s.desired[c] > 0 && !slices.ContainsFunc(s.list(c), func(p pods.Pod) bool { return p.Ready && !p.Terminating }) {
			errs = append(errs, fmt.Errorf("%s has no ready pod", c))
		}
	}
	return errors.Join(errs...)
}
