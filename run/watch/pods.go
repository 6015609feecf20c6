package watch

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
)

// podSights is what the watcher knows of the pods, to tell what is new.
type podSights struct {
	known map[types.UID]*podSight
}

func newPods() podSights { return podSights{known: map[types.UID]*podSight{}} }

// podSight is how a pod was when it was seen last.
type podSight struct {
	pod      pods.Pod
	deleting bool
	evicted  string // reason
	stuck    string // reason
	ends     map[string]bool
}

// podSeen records what is new about a pod.
func (w *Watcher) podSeen(at time.Duration, p *corev1.Pod, initial bool) {
	old, now := w.pods.known[p.UID], sight(p)
	if old == nil {
		old = &podSight{ends: map[string]bool{}}
		if initial { // what ended before the watch began is no news
			for _, e := range containerEnds(p) {
				old.ends[e.key] = true
			}
		}
	}
	now.ends = old.ends
	w.pods.known[p.UID] = now
	w.cfg.State.setPod(now.pod)
	for _, c := range changes(p, old, now) {
		c.Pod, c.Version, c.IP = now.pod.Ref(), version(p, now.pod), now.pod.IP
		w.record(at, p.Name, c)
	}
	for _, e := range containerEnds(p) {
		if !now.ends[e.key] {
			now.ends[e.key] = true
			e.end.Pod = now.pod.Ref()
			w.record(at, p.Name, e.end)
		}
	}
	w.progress(at)
}

// podGone records that the object is no more. One that went without ever being asked to end was removed
// at once, with a grace period of 0: the API server then shows no deletion timestamp.
func (w *Watcher) podGone(at time.Duration, p *corev1.Pod, missed bool) {
	old := w.pods.known[p.UID]
	if old == nil {
		return
	}
	delete(w.pods.known, p.UID)
	ref, last := old.pod.Ref(), sight(p)
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch {
	case old.deleting || missed || finished:
	case last.deleting:
		w.record(at, p.Name, history.PodChange{Pod: ref, State: history.PodDeleting, Grace: grace(p)})
	default:
		w.record(at, p.Name, history.PodChange{Pod: ref, State: history.PodDeleting, Reason: "Removed", Detail: "removed at once, without a grace period"})
	}
	gone := history.PodChange{Pod: ref, State: history.PodGone, IP: old.pod.IP}
	if missed {
		gone.Detail = "it went while nothing was seen"
	}
	w.cfg.State.dropPod(old.pod.UID)
	w.record(at, p.Name, gone)
	w.progress(at)
}

func sight(p *corev1.Pod) *podSight {
	s := &podSight{pod: pods.From(p), deleting: p.DeletionTimestamp != nil}
	s.evicted, _ = eviction(p)
	s.stuck, _ = stuck(p)
	return s
}

// changes are the states a pod has come into, in the order in which they matter.
func changes(p *corev1.Pod, old, now *podSight) (out []history.PodChange) {
	add := func(c history.PodChange) { out = append(out, c) }
	switch {
	case old.pod.UID == "":
		add(history.PodChange{State: history.PodCreated})
	case old.pod.Node == "" && now.pod.Node != "":
		add(history.PodChange{State: history.PodCreated, Detail: "scheduled"})
	}
	if now.stuck != "" && now.stuck != old.stuck {
		_, why := stuck(p)
		add(history.PodChange{State: history.PodStuck, Reason: now.stuck, Detail: why})
	}
	switch {
	case now.pod.Ready && !old.pod.Ready:
		add(history.PodChange{State: history.PodReady})
	case !now.pod.Ready && old.pod.Ready:
		add(history.PodChange{State: history.PodUnready, Reason: unreadyReason(p)})
	}
	if now.evicted != "" && old.evicted == "" {
		_, why := eviction(p)
		add(history.PodChange{State: history.PodEvicted, Reason: now.evicted, Detail: why})
	}
	if now.deleting && !old.deleting {
		add(history.PodChange{State: history.PodDeleting, Grace: grace(p), Reason: disruption(p).Reason})
	}
	if now.pod.Phase != old.pod.Phase {
		switch now.pod.Phase {
		case corev1.PodFailed:
			add(history.PodChange{State: history.PodFailed, Reason: p.Status.Reason, Detail: p.Status.Message})
		case corev1.PodSucceeded:
			add(history.PodChange{State: history.PodDone})
		}
	}
	return out
}

func grace(p *corev1.Pod) time.Duration {
	if s := p.DeletionGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 0
}
