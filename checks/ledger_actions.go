package checks

import (
	"time"

	"shakedown.dev/shakedown/history"
)

// phase is one timeline entry with each time it ran.
type phase struct {
	name   string
	action string
	runs   []span // to is never while it lasts
	missed bool
	failed string // why its action failed
	skips  bool
	orElse string
	when   string
	detail string
}

func (l *ledger) addEntry(e history.Event, d history.Entry) {
	p, ok := l.entries[d.Name]
	if !ok {
		p = &phase{name: d.Name}
		l.entries[d.Name] = p
		l.entryOrder = append(l.entryOrder, d.Name)
	}
	if d.Action != "" {
		p.action = d.Action
	}
	if d.When != "" {
		p.when = d.When
	}
	switch d.State {
	case history.EntryStarted:
		p.runs = append(p.runs, span{e.At, never})
	case history.EntryEnded:
		p.close(e.At)
		if e.Outcome == history.Failed || d.Error != "" {
			p.failed = firstText(d.Error, d.Detail, "failed")
		}
	case history.EntryMissed:
		p.close(e.At)
		p.missed, p.orElse, p.detail = true, d.OrElse, firstText(d.Detail, d.Error)
	case history.EntrySkipped:
		p.skips = true
	}
}

// firstText gives the first text that is not empty.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (p *phase) close(at time.Duration) {
	if n := len(p.runs); n > 0 && p.runs[n-1].to == never {
		p.runs[n-1].to = at
	}
}

// fault is the life of one injection. Moments that did not come are never.
type fault struct {
	history.Fault                                             // of its last stage, with targets and proofs collected
	planned, inject, bit, heal, healed, stopped time.Duration // stopped: unavailable, empty, failed, not bitten
	bitProof, healProof                         string
	stages                                      map[history.FaultStage]bool
}

func (l *ledger) addFault(at time.Duration, d history.Fault) {
	f := l.fault(d.ID)
	f.Fault = mergeFault(f.Fault, d)
	f.stages[d.Stage] = true
	switch d.Stage {
	case history.FaultPlanned:
		first(&f.planned, at)
	case history.FaultInject:
		first(&f.inject, at)
	case history.FaultBit:
		first(&f.bit, at)
		f.bitProof = d.Proof
	case history.FaultHeal:
		first(&f.heal, at)
	case history.FaultHealed:
		first(&f.healed, at)
		f.healProof = d.Proof
	default:
		first(&f.stopped, at)
	}
}

func (l *ledger) fault(id string) *fault {
	for _, f := range l.faults {
		if f.ID == id {
			return f
		}
	}
	f := &fault{planned: never, inject: never, bit: never, heal: never, healed: never, stopped: never, stages: map[history.FaultStage]bool{}}
	l.faults = append(l.faults, f)
	return f
}

// mergeFault keeps what an earlier stage told and a later one left out.
func mergeFault(old, d history.Fault) history.Fault {
	if len(d.Targets) == 0 {
		d.Targets = old.Targets
	}
	d.Name = firstText(d.Name, old.Name)
	d.Entry = firstText(d.Entry, old.Entry)
	d.Selector = firstText(d.Selector, old.Selector)
	d.Detail = firstText(d.Detail, old.Detail)
	d.Error = firstText(d.Error, old.Error)
	return d
}

// bites says whether the fault proved that it took effect.
func (f *fault) bites() bool { return f.bit != never && f.bitProof != "" }

// heals says whether the fault proved that it was undone.
func (f *fault) heals() bool { return f.healed != never && f.healProof != "" }

// force is while the fault could hurt: from injection until proven healed.
func (f *fault) force(last time.Duration) span {
	if f.inject == never {
		return span{never, never}
	}
	if f.healed != never {
		return span{f.inject, f.healed}
	}
	return span{f.inject, last}
}

// rollout is the life of one rollout.
type rollout struct {
	id, entry, verb string
	from, to        string
	begin, end      time.Duration
	outcome         history.Outcome
	err             string
	hashes          map[string]string // component: new revision
	components      map[string]bool
}

func (l *ledger) addRollout(e history.Event, d history.Rollout) {
	r := l.rollout(d)
	r.from, r.to = firstText(r.from, d.From), firstText(d.To, r.to)
	if d.Component != "" {
		r.components[d.Component] = true
		if d.Hash != "" {
			r.hashes[d.Component] = d.Hash
		}
	}
	if d.Error != "" {
		r.err = d.Error
	}
	first(&r.begin, e.At)
	if d.Stage == history.RolloutEnd {
		first(&r.end, e.At)
		r.outcome = e.Outcome
	}
}

func (l *ledger) rollout(d history.Rollout) *rollout {
	for _, r := range l.rollouts {
		if r.id == d.ID {
			return r
		}
	}
	r := &rollout{id: d.ID, entry: d.Entry, verb: d.Verb, begin: never, end: never, hashes: map[string]string{}, components: map[string]bool{}}
	l.rollouts = append(l.rollouts, r)
	return r
}

// disturbs says whether the rollout changes a running system; the first installation does not.
func (r *rollout) disturbs() bool { return r.verb != "install" }

func (r *rollout) force(last time.Duration) span {
	if r.end != never {
		return span{r.begin, r.end}
	}
	return span{r.begin, last}
}
