package checks

import (
	"slices"
	"time"
)

// RecoveryWatch says while a run goes on whether it has recovered, by the definition that judges it
// afterwards: every component at full capacity and sessions of every kind opening within twice their
// median before the first change, for ten seconds in a row. It is for one goroutine; moments are since
// the run's start and may come a little out of order.
type RecoveryWatch struct {
	short    map[string]time.Duration // component: last moment it was below what is desired
	known    map[string]time.Duration // component: since when anything is known of it
	opens    map[string]*openSeries
	baseline map[string]time.Duration
	changed  time.Duration // first change; never: none yet
	over     time.Duration // end of the last one; never: one is under way, or none began
}

// NewRecoveryWatch watches the named components.
func NewRecoveryWatch(components []string) *RecoveryWatch {
	w := &RecoveryWatch{short: map[string]time.Duration{}, known: map[string]time.Duration{}, opens: map[string]*openSeries{}, changed: never, over: never}
	for _, c := range components {
		w.short[c], w.known[c] = never, never
	}
	return w
}

// Capacity tells how many pods serve at a moment, and how many are desired.
func (w *RecoveryWatch) Capacity(at time.Duration, component string, serving, desired int) {
	known, watched := w.known[component]
	if !watched {
		return
	}
	if known == never {
		w.known[component] = at
	}
	if serving < desired {
		w.short[component] = max(w.short[component], at)
	}
}

// Opened tells of a session that was due then and took so long to open.
func (w *RecoveryWatch) Opened(kind string, due, took time.Duration) {
	o := w.opens[kind]
	if o == nil {
		o = &openSeries{}
		w.opens[kind] = o
	}
	i, _ := slices.BinarySearch(o.due, due)
	o.due = slices.Insert(o.due, i, due)
	o.latency = slices.Insert(o.latency, i, took)
}

// Changes tells that a fault or rollout begins.
func (w *RecoveryWatch) Changes(at time.Duration) {
	w.over = never
	if w.changed != never {
		return
	}
	w.changed, w.baseline = at, map[string]time.Duration{}
	for kind, o := range w.opens {
		if median, n := o.median(span{0, at}); n >= minOpens {
			w.baseline[kind] = median
		}
	}
}

// ChangesOver tells that no fault or rollout is under way any more.
func (w *RecoveryWatch) ChangesOver(at time.Duration) { w.over = at }

// Recovered says whether the last ten seconds were as before the first change. Without any change
// there is nothing to recover from, and it holds.
func (w *RecoveryWatch) Recovered(now time.Duration) bool {
	if w.changed == never {
		return true
	}
	begin := now - recoveryHold
	if w.over == never || begin < w.over {
		return false
	}
	for c, short := range w.short {
		if known := w.known[c]; known == never || known > begin || short >= begin {
			return false
		}
	}
	for kind, base := range w.baseline {
		if median, n := w.opens[kind].median(span{begin, now}); n >= minOpens && median > latencyBack*base {
			return false
		}
	}
	w.forget(begin)
	return true
}

// forget drops opens that no later question can reach.
func (w *RecoveryWatch) forget(before time.Duration) {
	for _, o := range w.opens {
		i, _ := slices.BinarySearch(o.due, before)
		o.due, o.latency = slices.Delete(o.due, 0, i), slices.Delete(o.latency, 0, i)
	}
}
