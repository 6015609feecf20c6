package scenarios

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// check finds what is wrong between the parts of a scenario whose parts are
// right: names and references.
func (d *decoder) check(s *Scenario) {
	seen := map[string]bool{}
	for _, stream := range s.Load {
		if seen[stream.Name] {
			d.at(stream.pos, Problem{Message: fmt.Sprintf("there are two streams named %q", stream.Name)})
		}
		seen[stream.Name] = true
	}
	seen = map[string]bool{}
	for _, g := range s.Expect {
		if seen[g.Name] {
			d.at(g.pos, Problem{Message: fmt.Sprintf("there are two gates named %q", g.Name)})
		}
		seen[g.Name] = true
	}
	steps, problems := flatten(s, 0)
	d.problems = append(d.problems, problems...)
	d.releases(s)
	d.rollouts(s, steps)
	d.queries(s)
}

func (d *decoder) at(pos Position, p Problem) {
	d.problems = append(d.problems, p.at(d.file, pos))
}

func (d *decoder) releases(s *Scenario) {
	if s.Teleport.From.Chart == "" {
		d.at(s.Teleport.From.pos, Problem{Path: "spec.teleport.from", Message: `a release needs field "chart"`})
	}
}

// rollouts checks that what speaks of a rollout has one.
func (d *decoder) rollouts(s *Scenario, steps []Step) {
	rolls := slices.ContainsFunc(steps, func(st Step) bool {
		return st.Do != nil && slices.Contains([]string{"helmUpgrade", "helmRollback", "restart"}, st.Do.Action)
	})
	for _, st := range steps {
		if st.Do == nil || st.Round > 1 {
			continue
		}
		if st.Do.Action == "helmUpgrade" && st.Do.Args.String("to") == "target" && s.Teleport.To == nil {
			d.at(st.Do.pos, Problem{Message: "upgrades to the target, but spec.teleport.to does not say which"})
		}
		for _, name := range sortedKeys(st.Do.Selects) {
			if sel := st.Do.Selects[name]; sel.Revision != "" && !rolls {
				d.at(sel.pos, Problem{Message: fmt.Sprintf("selects the %s revision, but nothing in the timeline rolls out another", sel.Revision)})
			}
		}
	}
}

// expressions checks gates and conditions, also of a scenario whose parts are not all right.
func (d *decoder) expressions(s *Scenario, names Names) {
	if d.opts.Expr == nil {
		return
	}
	check := func(place ExprPlace, expr string, pos Position, path string) {
		for _, p := range d.opts.Expr(place, expr, names) {
			d.at(p.in(pos), Problem{Path: path, Message: p.text(), Nearest: p.Nearest, Allowed: p.Allowed})
		}
	}
	for _, g := range s.Expect {
		if g.That == "" {
			continue // told already: there is none
		}
		check(PlaceGate, g.That, g.pos, fmt.Sprintf("gate %q", g.Name))
	}
	eachEntry(s.Timeline, func(e *Entry) {
		if e.When != "" {
			check(PlaceCondition, e.When, e.places.when, fmt.Sprintf("entry %q", e.Name))
		}
		if e.Wait != nil && e.Wait.For != "" {
			check(PlaceCondition, e.Wait.For, e.places.wait, fmt.Sprintf("entry %q", e.Name))
		}
	})
}

// Names are the names that expressions of this scenario may mention.
func (s *Scenario) Names() Names {
	var n Names
	eachEntry(s.Timeline, func(e *Entry) { n.Entries = append(n.Entries, e.Name) })
	for _, stream := range s.Load {
		n.Streams = append(n.Streams, stream.Name)
		for _, m := range stream.Mix {
			if !slices.Contains(n.Kinds, m.Session.Kind) {
				n.Kinds = append(n.Kinds, m.Session.Kind)
			}
		}
	}
	if s.Prometheus != nil {
		for _, q := range s.Prometheus.Queries {
			n.Queries = append(n.Queries, q.Name)
		}
	}
	return n
}

// namesAnywhere are all names that stand in a file whose structure is not right: what an expression calls
// by its name may be what could not be decoded, and must not be called unknown.
func namesAnywhere(root *yaml.Node) Names {
	var all []string
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "name" && c.Kind == yaml.ScalarNode {
				all = append(all, c.Value)
			}
			walk(c)
		}
	}
	walk(root)
	return Names{Entries: all, Streams: all, Kinds: SessionKinds(), Queries: all}
}

// eachEntry visits all entries, outer ones first.
func eachEntry(entries []Entry, visit func(*Entry)) {
	for i := range entries {
		e := &entries[i]
		visit(e)
		eachEntry(e.Sequence, visit)
		eachEntry(e.Parallel, visit)
		if e.Repeat != nil {
			eachEntry(e.Repeat.Sequence, visit)
		}
	}
}

// in is where the problem stands in the file, if its expression begins at pos
// and is written in one line, as nearly all are.
func (p ExprProblem) in(pos Position) Position {
	if p.Line == 1 && p.Column > 0 && pos.Line > 0 {
		pos.Column += p.Column - 1
	}
	return pos
}

func (p ExprProblem) text() string {
	if p.Hint == "" {
		return p.Message
	}
	return p.Message + "; " + p.Hint
}
