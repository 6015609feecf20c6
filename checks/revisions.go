package checks

import (
	"slices"
	"strings"
	"time"
)

// wanted is the revision that a component's controller wants from a moment on; several controllers, several revisions.
type wanted struct {
	at        time.Duration
	revisions string // separated by commas
}

// wants gives what the component's controller wanted at t; empty: not known. A watch may tell of the pod it acted on
// a moment before it tells of the controller.
func (l *ledger) wants(component string, t time.Duration) string {
	last := ""
	for _, w := range l.replicas[component].wants {
		if w.at <= t+sameUpdate {
			last = w.revisions
		}
	}
	return last
}

func isWanted(wants, revision string) bool {
	return slices.Contains(strings.Split(wants, ","), revision)
}

// rolloutsBehind names the rollouts in force at t that can have done something to the pod. One that brings the
// revision which the controller wanted then is behind it rather than one that brings another and was overtaken.
func (l *ledger) rolloutsBehind(p *pod, t time.Duration, can func(r *rollout, wants string) bool) []string {
	wants := l.wants(p.ref.Component, t)
	var might, fit []string
	brings := false
	for _, r := range l.rollouts {
		if !r.disturbs() || !r.concerns(p) || !near(r.force(l.last), t) || !can(r, wants) {
			continue
		}
		might = append(might, "rollout "+r.id)
		hash := r.hashes[p.ref.Component]
		brings = brings || hash != "" && isWanted(wants, hash)
		if hash == "" || isWanted(wants, hash) {
			fit = append(fit, "rollout "+r.id)
		}
	}
	if brings {
		return fit
	}
	return might
}

// concerns says whether the rollout changes the pod's component.
func (r *rollout) concerns(p *pod) bool {
	return p.ref.Component != "" && (len(r.components) == 0 || r.components[p.ref.Component])
}

// replaces says whether the pod is one that the rollout is to end: not of the revision that it brings, or, since one
// that fails is rolled back, not of the one that the controller wants.
func (r *rollout) replaces(p *pod, wants string) bool {
	hash := r.hashes[p.ref.Component]
	return hash == "" || p.ref.Revision != hash || wants != "" && !isWanted(wants, p.ref.Revision)
}

// makes says whether the pod is of the revision that the rollout brings, or of the one that the controller wants.
func (r *rollout) makes(p *pod, wants string) bool {
	hash := r.hashes[p.ref.Component]
	return hash == "" || p.ref.Revision == hash || isWanted(wants, p.ref.Revision)
}
