package checks

import (
	"errors"
	"slices"
	"time"

	"shakedown.dev/shakedown/checks/gates"
)

const (
	recoveryHold = 10 * time.Second       // DESIGN: back for that long
	recoveryStep = 250 * time.Millisecond // how finely the moment is looked for
	latencyBack  = 2                      // DESIGN: within twice the baseline
	minOpens     = 5                      // fewer opens than that give no median worth comparing
)

// recovery is when the system was back after the last disturbance.
type recovery struct {
	gates.Recovery
	at       time.Duration // when it was back; the end of what was watched if it was not
	from     time.Duration // the last disturbance's end; never without one
	baseline map[int32]time.Duration
}

// errUndisturbed is why an undisturbed run has no recovery.
var errUndisturbed = errors.New("nothing was disturbed, so nothing had to recover")

// Recovery from the last fault or rollout step. Its error is that there was none.
func (v view) Recovery() (gates.Recovery, error) {
	if v.m.recovery.from == never {
		return gates.Recovery{}, errUndisturbed
	}
	return v.m.recovery.Recovery, nil
}

func (l *ledger) findRecovery(cs []*component) recovery {
	r := recovery{from: l.lastChange(), at: l.measured, baseline: map[int32]time.Duration{}}
	if r.from == never {
		return r
	}
	opens := l.opensByKind()
	for kind, o := range opens {
		if base, n := o.median(span{0, l.firstChange()}); n >= minOpens {
			r.baseline[kind] = base
		}
	}
	for t := r.from; t+recoveryHold <= l.measured; t += recoveryStep {
		w := span{t, t + recoveryHold}
		if full(cs, w) && quick(opens, r.baseline, w) {
			r.Recovered, r.at, r.Seconds = true, t, (t - r.from).Seconds()
			return r
		}
	}
	r.Seconds = max(l.measured-r.from, 0).Seconds()
	return r
}

// full says whether every component had all its capacity throughout w.
func full(cs []*component, w span) bool {
	for _, c := range cs {
		s, _ := c.capacity()
		if n, known := s.min(w); !known || n < c.target || s.covered(w) < w.length() {
			return false
		}
	}
	return true
}

// quick says whether sessions of every kind with a baseline opened within twice its median.
func quick(opens map[int32]*openSeries, baseline map[int32]time.Duration, w span) bool {
	for kind, base := range baseline {
		if now, n := opens[kind].median(w); n >= minOpens && now > latencyBack*base {
			return false
		}
	}
	return true
}

// openSeries are the opens of one kind of session by due time.
type openSeries struct {
	due     []time.Duration
	latency []time.Duration
}

func (l *ledger) opensByKind() map[int32]*openSeries {
	type open struct{ due, took time.Duration }
	all := map[int32][]open{}
	for i := range l.sessions {
		if s := &l.sessions[i]; s.open > 0 {
			all[s.kind] = append(all[s.kind], open{s.due, s.open - s.due})
		}
	}
	out := map[int32]*openSeries{}
	for kind, os := range all {
		slices.SortFunc(os, func(a, b open) int { return int(a.due - b.due) })
		series := &openSeries{}
		for _, o := range os {
			series.due = append(series.due, o.due)
			series.latency = append(series.latency, o.took)
		}
		out[kind] = series
	}
	return out
}

func (o *openSeries) median(w span) (time.Duration, int) {
	i, _ := slices.BinarySearch(o.due, w.from)
	j, _ := slices.BinarySearch(o.due, w.to)
	if i >= j {
		return 0, 0
	}
	part := slices.Clone(o.latency[i:j])
	slices.Sort(part)
	return part[len(part)/2], len(part)
}
