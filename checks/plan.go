package checks

import (
	"errors"
	"slices"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history/metrics"
	"shakedown.dev/shakedown/scenarios"
)

// FromPlan takes from a plan what judging needs.
func FromPlan(p *scenarios.Plan) Expect {
	var e Expect
	var words scenarios.Names
	for _, s := range p.Streams {
		words.Streams = append(words.Streams, s.Name)
		for _, m := range s.Mix {
			if !slices.Contains(words.Kinds, m.Session.Kind) {
				words.Kinds = append(words.Kinds, m.Session.Kind)
			}
		}
	}
	for _, s := range p.Timeline {
		if !slices.Contains(words.Entries, s.Name) {
			words.Entries = append(words.Entries, s.Name)
		}
		if planned, ok := plannedEntry(s); ok {
			e.Entries = append(e.Entries, planned)
		}
	}
	for _, g := range p.Gates {
		e.Gates = append(e.Gates, gates.Gate{Name: g.Name, Expr: g.That})
	}
	if p.Prometheus != nil {
		e.Missing = map[string]string{}
		for _, q := range p.Prometheus.Queries {
			words.Queries = append(words.Queries, q.Name)
			e.Missing[q.Name] = q.Missing
		}
	}
	e.Steps = plannedSteps(p)
	e.Names = Names(words)
	return e
}

func plannedEntry(s scenarios.Step) (PlannedEntry, bool) {
	if s.Do == nil {
		return PlannedEntry{}, false
	}
	rollout := slices.Contains([]string{"helmUpgrade", "helmRollback", "restart", "scale"}, s.Do.Action)
	return PlannedEntry{Name: s.Name, Action: s.Do.Action, Rollout: rollout, OrElse: string(s.OrElse)}, s.Fault || rollout
}

// Names are the words that expressions of a scenario may use.
func Names(n scenarios.Names) gates.Names {
	return gates.Names{
		Components: []string{"auth", "proxy", "agent"},
		Phases:     n.Entries, Streams: n.Streams, Kinds: n.Kinds, Metrics: metrics.Names(), Queries: n.Queries,
	}
}

// ExprCheck type-checks the gates and conditions of a scenario file; it is scenarios.Options.Expr.
func ExprCheck(place scenarios.ExprPlace, expr string, n scenarios.Names) []scenarios.ExprProblem {
	var err error
	if place == scenarios.PlaceGate {
		_, err = gates.Compile([]gates.Gate{{Expr: expr}}, Names(n))
	} else {
		_, err = gates.CompileCondition(expr, Names(n))
	}
	if err == nil {
		return nil
	}
	var problems gates.Problems
	if !errors.As(err, &problems) {
		return []scenarios.ExprProblem{{Message: err.Error()}}
	}
	out := make([]scenarios.ExprProblem, len(problems))
	for i, p := range problems {
		out[i] = scenarios.ExprProblem{Line: p.Line, Column: p.Column, Message: p.Message, Nearest: p.Nearest, Allowed: p.Allowed, Hint: p.Hint}
	}
	return out
}
