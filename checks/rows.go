package checks

import (
	"strings"
	"time"
)

// FaultRow is one fault as verdict.json has it; times in seconds since the run's start.
type FaultRow struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Entry     string   `json:"entry,omitempty"`
	Target    string   `json:"target"`
	Start     *float64 `json:"start"` // nil: never injected
	Over      *float64 `json:"over"`  // when it had done what it was to do; nil: never injected
	End       *float64 `json:"end"`   // nil: never healed
	Bit       bool     `json:"bit"`
	Healed    bool     `json:"healed"`
	Proof     string   `json:"proof,omitempty"`
	HealProof string   `json:"healProof,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Cost      Cost     `json:"cost"`
}

// RolloutRow is one rollout; times in seconds since the run's start.
type RolloutRow struct {
	ID      string   `json:"id"`
	Entry   string   `json:"entry,omitempty"`
	Verb    string   `json:"verb"`
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Start   float64  `json:"start"`
	End     *float64 `json:"end"`
	Outcome string   `json:"outcome"`
	Error   string   `json:"error,omitempty"`
	Cost    Cost     `json:"cost"`
}

func (m *Measures) faultRows(costs map[string]*Cost) []FaultRow {
	rows := []FaultRow{}
	for _, f := range m.l.faults {
		row := FaultRow{ID: f.ID, Name: f.Name, Entry: f.Entry, Target: f.targetNames(), Start: moment(f.inject), End: moment(f.healed),
			Bit: f.bites(), Healed: f.heals(), Proof: f.bitProof, HealProof: f.healProof, Detail: firstText(f.Error, f.Detail), Cost: *costs["fault "+f.ID]}
		if f.inject != never {
			row.Over, row.Cost.Least = moment(m.l.faultOver(f)), m.least(m.l.window(f))
		}
		rows = append(rows, row)
	}
	return rows
}

func (f *fault) targetNames() string {
	var names []string
	for _, t := range f.Targets {
		names = append(names, t.Kind+"/"+t.Name)
	}
	if len(names) == 0 {
		return f.Selector
	}
	return strings.Join(names, ", ")
}

func (m *Measures) rolloutRows(costs map[string]*Cost) []RolloutRow {
	rows := []RolloutRow{}
	for _, r := range m.l.rollouts {
		outcome := string(r.outcome)
		if r.end == never {
			outcome = "never ended"
		}
		cost := *costs["rollout "+r.id]
		cost.Least = m.least(r.force(m.l.last))
		rows = append(rows, RolloutRow{ID: r.id, Entry: r.entry, Verb: r.verb, From: r.from, To: r.to,
			Start: inSeconds(r.begin), End: moment(r.end), Outcome: outcome, Error: r.err, Cost: cost})
	}
	return rows
}

// moment gives seconds, or nil for a moment that did not come.
func moment(t time.Duration) *float64 {
	if t == never {
		return nil
	}
	s := inSeconds(t)
	return &s
}

// inSeconds rounds to a millisecond.
func inSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
