package scenarios

import (
	"fmt"
	"maps"
	"slices"
)

// Facts are what the caller knows about the cluster and the rendered chart.
// What is left out is not checked, and the plan says so.
type Facts struct {
	Provider string `json:"provider,omitempty"`
	Nodes    int    `json:"nodes,omitempty"` // schedulable; 0: not known
	// Components by name (auth, proxy, agent), from the rendered chart.
	Components map[string]Component `json:"components,omitempty"`
	// Unavailable are actions that cannot be done here, with the reason.
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

// Component is one workload of the rendered chart.
type Component struct {
	Replicas       int  `json:"replicas"`
	MaxSurge       int  `json:"maxSurge"`       // in pods, percentages worked out
	MaxUnavailable int  `json:"maxUnavailable"` // in pods, percentages worked out
	Recreate       bool `json:"recreate,omitempty"`
	// Apart: no two of its pods may be on one node (required anti-affinity).
	Apart bool `json:"apart,omitempty"`
	// Budget is its PodDisruptionBudget; nil: none.
	Budget *Budget `json:"budget,omitempty"`
}

// Budget is a PodDisruptionBudget, percentages worked out.
type Budget struct {
	Name         string `json:"name"`
	MinAvailable int    `json:"minAvailable"`
}

// Allows is how many pods may be away while all replicas are healthy.
func (c Component) Allows() int {
	if c.Budget == nil {
		return c.Replicas
	}
	return max(0, c.Replicas-c.Budget.MinAvailable)
}

// reach is how many a selection hits at most, and whether that is known.
func (f Facts) reach(hits Hits, sel Selection) (int, bool) {
	if sel.Count > 0 {
		return sel.Count, true
	}
	all := f.Nodes
	switch {
	case hits == HitsPods:
		all = f.Components[sel.Component].Replicas
	case !sel.Node.Named():
		all = max(0, all-1) // beside the control arm's
	}
	if all == 0 {
		return 0, false
	}
	n, err := sel.Want(all)
	return n, err == nil
}

// infeasible finds what cannot work on a cluster with these facts.
func infeasible(s *Scenario, p *Plan) Problems {
	var out Problems
	say := func(pos Position, format string, args ...any) {
		out = append(out, Problem{Message: fmt.Sprintf(format, args...)}.at(s.File, pos))
	}
	if n := p.Facts.Nodes; n > 0 && n < s.Cluster.Nodes {
		say(Position{}, "the scenario needs %d nodes, the cluster has %d", s.Cluster.Nodes, n)
	}
	for _, message := range Placement(p.Facts) {
		say(s.Teleport.From.pos, "%s", message)
	}
	for _, step := range p.Timeline {
		for _, message := range stepProblems(step, p.Facts) {
			say(step.pos, "entry %q: %s", step.Name, message)
		}
	}
	if message := noneSpared(p.Timeline, p.Facts); message != "" {
		say(Position{}, "%s", message)
	}
	for _, message := range p.Blast.over(s.Limits) {
		say(s.Limits.pos, "%s", message)
	}
	return out
}

// Placement says which components have no room at all.
func Placement(f Facts) []string {
	var out []string
	for _, name := range sortedKeys(f.Components) {
		c := f.Components[name]
		if f.Nodes > 0 && c.Apart && c.Replicas > f.Nodes {
			out = append(out, fmt.Sprintf("%d replicas of %s must each have a node of their own (required anti-affinity), there are %d nodes", c.Replicas, name, f.Nodes))
		}
	}
	return out
}

func stepProblems(s Step, f Facts) []string {
	if s.Do == nil {
		return nil
	}
	if reason, missing := f.Unavailable[s.Do.Action]; missing {
		return []string{fmt.Sprintf("%s is not available here: %s", s.Do.Action, reason)}
	}
	var out []string
	for _, name := range sortedKeys(s.Do.Selects) {
		out = append(out, selects(*s.Do.Selects[name], s, f)...)
	}
	switch s.Do.Action {
	case "helmUpgrade", "restart", "helmRollback":
		if s.Do.Args.String("expect") == "success" || s.Do.Action != "helmUpgrade" {
			out = append(out, RolloutStuck(f)...)
		}
	case "nodeDrain":
		out = append(out, DrainBlocked(spared(s, f))...)
	}
	return out
}

// selects holds what a selection wants against what there is.
func selects(sel Selection, s Step, f Facts) []string {
	if sel.Component == "" {
		if f.Nodes > 0 && sel.Count > f.Nodes {
			return []string{fmt.Sprintf("selects %d nodes, there are %d", sel.Count, f.Nodes)}
		}
		if bad := tooFewBeside(sel, s, f); bad != nil {
			return bad
		}
		return nodesOf(sel.Node, f)
	}
	if bad := unknownComponent(sel.Component, f); bad != nil {
		return bad
	}
	if c := f.Components[sel.Component]; c.Replicas > 0 && sel.Count > c.Replicas {
		return []string{fmt.Sprintf("selects %d pods of %s, there are %d", sel.Count, sel.Component, c.Replicas)}
	}
	return nil
}

func nodesOf(n *NodeSelection, f Facts) []string {
	if n == nil || n.Running == "" {
		return nil
	}
	return unknownComponent(n.Running, f)
}

func unknownComponent(name string, f Facts) []string {
	if _, known := f.Components[name]; known || len(f.Components) == 0 {
		return nil
	}
	p := Problem{Message: fmt.Sprintf("there is no component %q", name), Nearest: nearest(name, sortedKeys(f.Components)), Allowed: sortedKeys(f.Components)}
	return []string{p.String()[len(": "):]}
}

// RolloutStuck says which components' rollouts cannot move: every new pod
// needs a node of its own, all nodes are taken, and no old pod may go first.
func RolloutStuck(f Facts) []string {
	var out []string
	for _, name := range sortedKeys(f.Components) {
		c := f.Components[name]
		if f.Nodes > 0 && c.Apart && !c.Recreate && c.Replicas >= f.Nodes && c.MaxUnavailable == 0 {
			out = append(out, fmt.Sprintf("the rollout of %s cannot move: its %d pods must each have a node of their own (required anti-affinity), all %d nodes are taken, and maxUnavailable is 0; allow one to be unavailable, or add a node", name, c.Replicas, f.Nodes))
		}
	}
	return out
}

// spared are the facts without a component that the drained nodes do not carry.
func spared(s Step, f Facts) Facts {
	f.Components = maps.Clone(f.Components)
	for _, sel := range s.Do.Selects {
		if sel.Node != nil {
			delete(f.Components, sel.Node.Without)
		}
	}
	return f
}

// DrainBlocked says which budgets forbid every eviction, so that a drain of a
// node that carries such a pod can only run out of time.
func DrainBlocked(f Facts) []string {
	var out []string
	for _, name := range sortedKeys(f.Components) {
		c := f.Components[name]
		if c.Budget != nil && c.Replicas > 0 && c.Allows() == 0 {
			out = append(out, fmt.Sprintf("PodDisruptionBudget %s forbids every eviction of %s: it wants %d available of %d replicas, so the drain would never end", c.Budget.Name, name, c.Budget.MinAvailable, c.Replicas))
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
