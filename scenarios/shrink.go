package scenarios

import "slices"

// Without is the plan without some of its steps and what is below them, for
// finding a smallest plan that still fails. What waited for a step that is
// gone waits for what that step had waited for. Heals of faults that are gone
// go with them. The blast radius stays that of the whole plan.
func (p *Plan) Without(ids ...string) *Plan {
	gone := map[string]Step{}
	for again := true; again; {
		again = false
		for _, s := range p.Timeline {
			_, known := gone[s.ID]
			_, inside := gone[s.Parent]
			if !known && (inside || slices.Contains(ids, s.ID) || s.heals(gone)) {
				gone[s.ID], again = s, true
			}
		}
	}
	out := *p
	out.Timeline = nil
	for _, s := range p.Timeline {
		if _, is := gone[s.ID]; is {
			continue
		}
		s.Needs = bypass(s.Needs, gone)
		out.Timeline = append(out.Timeline, s)
	}
	return &out
}

func (s Step) heals(gone map[string]Step) bool {
	if s.Do == nil || s.Do.Action != "heal" {
		return false
	}
	_, is := gone[s.Do.Args.String("of")]
	return is
}

// bypass replaces needs of steps that are gone by the needs of those steps,
// with the pauses added up.
func bypass(needs []Need, gone map[string]Step) []Need {
	var out []Need
	for _, n := range needs {
		s, is := gone[n.Step]
		if !is || n.Step == "" {
			out = append(out, n)
			continue
		}
		for _, before := range bypass(s.Needs, gone) {
			before.Plus += n.Plus
			out = append(out, before)
		}
	}
	if len(out) == 0 {
		out = []Need{{Point: Started}}
	}
	return slices.Compact(out)
}
