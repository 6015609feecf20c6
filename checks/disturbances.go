package checks

import "time"

// disturbance is a fault or a rollout as something that began and ended.
type disturbance struct {
	id   string
	what string // fault or rollout
	from time.Duration
	to   time.Duration // when it was over, so that recovery could begin
}

// disturbances are all faults that were injected and all rollouts that change a running system.
func (l *ledger) disturbances() []disturbance {
	var out []disturbance
	for _, f := range l.faults {
		if f.inject != never {
			out = append(out, disturbance{f.ID, "fault", f.inject, l.faultOver(f)})
		}
	}
	for _, r := range l.rollouts {
		if r.disturbs() {
			out = append(out, disturbance{r.id, "rollout", r.begin, r.force(l.last).to})
		}
	}
	return out
}

// faultOver is when a fault had done what it was to do. A fault that acts once (a deletion, a drain) is
// over when its timeline entry has ended: a drained node stays cordoned until the run's end, but the
// system can recover long before. One that lasts (a partition) is over when it was healed.
func (l *ledger) faultOver(f *fault) time.Duration {
	over := max(f.inject, f.bit)
	if !f.endsPods() && f.healed != never {
		return max(over, f.healed)
	}
	if e, ok := l.entries[entryName(f.Entry)]; ok {
		for _, r := range e.runs {
			if r.contains(f.inject) || r.from == f.inject {
				return max(over, r.to)
			}
		}
	}
	return over
}

// firstChange is when the first disturbance began; never without one.
func (l *ledger) firstChange() time.Duration {
	at := never
	for _, d := range l.disturbances() {
		at = earliest(at, d.from)
	}
	return at
}

// lastChange is when the last disturbance was over; never without one.
func (l *ledger) lastChange() time.Duration {
	at := never
	for _, d := range l.disturbances() {
		at = max(at, d.to)
	}
	return at
}

// endsPods says whether the fault hurts only by ending pods. Such a fault explains a loss through the
// end of a pod, never by being in force: a drained node stays cordoned and hurts nobody by it.
func (f *fault) endsPods() bool {
	switch f.Name {
	case "podDelete", "podEvict", "containerSignal", "nodeDrain", "nodeTaint", "nodeCordon":
		return true
	}
	return false
}

// onlyEndsPods says whether what the fault ends explains a loss, and its being in force does not: that of a rollout
// which is stuck leaves the pods of before alone.
func (f *fault) onlyEndsPods() bool { return f.endsPods() || f.Name == "rolloutStuck" }

// acts is the time in which the fault can be behind what happens to its targets.
func (l *ledger) acts(f *fault) span {
	if f.inject != never && f.endsPods() {
		return span{f.inject, l.faultOver(f)}
	}
	return f.force(l.last)
}
