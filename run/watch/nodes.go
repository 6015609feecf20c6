package watch

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/history"
)

// nodeSight is how a node was when it was seen last.
type nodeSight struct {
	ready    bool
	reason   string
	cordoned bool
	taints   []string
}

func newNodes() map[string]nodeSight { return map[string]nodeSight{} }

// nodeSeen records what is new about a node.
func (w *Watcher) nodeSeen(known map[string]nodeSight, at time.Duration, n *corev1.Node) {
	old, there := known[n.Name]
	now := sightOf(n)
	known[n.Name] = now
	tell := func(state history.NodeState, reason string) {
		w.record(at, n.Name, history.NodeChange{Node: n.Name, UID: string(n.UID), State: state, Reason: reason})
	}
	if !there {
		tell(history.NodeSeen, "")
		old = nodeSight{ready: true} // so that only what is not well is told
	}
	switch {
	case now.ready && !old.ready:
		tell(history.NodeReady, now.reason)
	case !now.ready && old.ready:
		tell(history.NodeNotReady, now.reason)
	}
	switch {
	case now.cordoned && !old.cordoned:
		tell(history.NodeCordoned, "")
	case !now.cordoned && old.cordoned:
		tell(history.NodeUncordoned, "")
	}
	for _, t := range now.taints {
		if !slices.Contains(old.taints, t) {
			tell(history.NodeTainted, t)
		}
	}
	for _, t := range old.taints {
		if !slices.Contains(now.taints, t) {
			tell(history.NodeUntainted, t)
		}
	}
}

func (w *Watcher) nodeGone(known map[string]nodeSight, at time.Duration, n *corev1.Node) {
	delete(known, n.Name)
	w.record(at, n.Name, history.NodeChange{Node: n.Name, UID: string(n.UID), State: history.NodeGone})
}

func sightOf(n *corev1.Node) nodeSight {
	s := nodeSight{cordoned: n.Spec.Unschedulable}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			s.ready, s.reason = c.Status == corev1.ConditionTrue, c.Reason
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeUnschedulable { // says no more than cordoned
			s.taints = append(s.taints, t.Key+":"+string(t.Effect))
		}
	}
	return s
}
