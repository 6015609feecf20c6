package watch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
)

const (
	componentLabel = "app.kubernetes.io/component"
	hashLabel      = "pod-template-hash"
	// countAnnotation is where the Deployment controller counts its ReplicaSets.
	countAnnotation = "deployment.kubernetes.io/revision"
)

// workload is a Deployment or StatefulSet, as far as a rollout goes.
type workload struct {
	uid       types.UID
	kind      string
	name      string
	component string
	// generation counts the changes of its spec; observed: its controller has seen the last one.
	generation int64
	observed   bool
	revision   string // of the template that its controller wants; of a Deployment: from its ReplicaSets

	desired, ready, updated, available, total int
}

// workloads are what the watcher knows of them.
type workloads struct {
	byUID map[types.UID]workload
	// sets are the ReplicaSets by their Deployment.
	sets map[types.UID]map[types.UID]replicaSet
	told map[string]history.Replicas // component
}

// replicaSet is one revision of a Deployment.
type replicaSet struct {
	count int
	hash  string
}

func newWorkloads() workloads {
	return workloads{byUID: map[types.UID]workload{}, sets: map[types.UID]map[types.UID]replicaSet{}, told: map[string]history.Replicas{}}
}

func componentOf(o metav1.ObjectMeta, template map[string]string) string {
	return cmp.Or(o.Labels[componentLabel], template[componentLabel])
}

func ofDeployment(d *appsv1.Deployment) workload {
	s := d.Status
	return workload{
		uid: d.UID, kind: "Deployment", name: d.Name, component: componentOf(d.ObjectMeta, d.Spec.Template.Labels),
		generation: d.Generation, observed: s.ObservedGeneration >= d.Generation, desired: wanted(d.Spec.Replicas),
		ready: int(s.ReadyReplicas), updated: int(s.UpdatedReplicas), available: int(s.AvailableReplicas), total: int(s.Replicas),
	}
}

func ofStatefulSet(d *appsv1.StatefulSet) workload {
	s := d.Status
	return workload{
		uid: d.UID, kind: "StatefulSet", name: d.Name, component: componentOf(d.ObjectMeta, d.Spec.Template.Labels),
		generation: d.Generation, observed: s.ObservedGeneration >= d.Generation, revision: s.UpdateRevision, desired: wanted(d.Spec.Replicas),
		ready: int(s.ReadyReplicas), updated: int(s.UpdatedReplicas), available: int(s.AvailableReplicas), total: int(s.Replicas),
	}
}

func wanted(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

func (w *Watcher) workloadSeen(at time.Duration, l workload) {
	if l.component == "" {
		return
	}
	w.workloads.byUID[l.uid] = l
	w.tellReplicas(at, l.component)
}

func (w *Watcher) workloadGone(at time.Duration, l workload) {
	if _, known := w.workloads.byUID[l.uid]; known {
		delete(w.workloads.byUID, l.uid)
		delete(w.workloads.sets, l.uid)
		w.tellReplicas(at, l.component)
	}
}

func (w *Watcher) replicaSetSeen(at time.Duration, rs *appsv1.ReplicaSet) {
	owner := metav1.GetControllerOf(rs)
	if owner == nil || owner.Kind != "Deployment" {
		return
	}
	if w.workloads.sets[owner.UID] == nil {
		w.workloads.sets[owner.UID] = map[types.UID]replicaSet{}
	}
	count, err := strconv.Atoi(rs.Annotations[countAnnotation])
	if err != nil {
		return // its controller has not counted it yet
	}
	w.workloads.sets[owner.UID][rs.UID] = replicaSet{count, rs.Labels[hashLabel]}
	w.tellReplicas(at, w.workloads.byUID[owner.UID].component)
}

func (w *Watcher) replicaSetGone(at time.Duration, rs *appsv1.ReplicaSet) {
	if owner := metav1.GetControllerOf(rs); owner != nil {
		delete(w.workloads.sets[owner.UID], rs.UID)
		w.tellReplicas(at, w.workloads.byUID[owner.UID].component)
	}
}

// newest is the template hash of the newest ReplicaSet, by the Deployment controller's own count.
func (w *Watcher) newest(deployment types.UID) string {
	best := replicaSet{count: -1}
	for _, rs := range w.workloads.sets[deployment] {
		if rs.count > best.count {
			best = rs
		}
	}
	return best.hash
}

// tellReplicas brings the State up to date about a component, and records its counts if they changed.
func (w *Watcher) tellReplicas(at time.Duration, component string) {
	if component == "" {
		return
	}
	var all []workload
	for _, uid := range slices.Sorted(maps.Keys(w.workloads.byUID)) {
		if l := w.workloads.byUID[uid]; l.component == component {
			if l.kind == "Deployment" {
				l.revision = w.newest(uid)
			}
			all = append(all, l)
		}
	}
	w.cfg.State.setWorkloads(at, component, all)
	now := replicasOf(component, all)
	if old, ok := w.workloads.told[component]; !ok || old != now {
		w.workloads.told[component] = now
		w.record(at, component, now)
	}
	w.progress(at)
}

// replicasOf adds the workloads of a component up; nearly always there is one. Of several the revisions are joined.
func replicasOf(component string, all []workload) history.Replicas {
	r := history.Replicas{Component: component}
	var revisions []string
	for _, l := range all {
		r.Desired += l.desired
		r.Ready += l.ready
		r.Updated += l.updated
		r.Available += l.available
		r.Total += l.total
		revisions = append(revisions, l.revision)
	}
	r.Revision = strings.Join(revisions, ",")
	return r
}

// progress records how far the rollout that is open has come, for each component where that changed.
func (w *Watcher) progress(at time.Duration) {
	for _, p := range w.cfg.State.progress() {
		w.record(at, p.Component, p)
	}
}
