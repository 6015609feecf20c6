package scenarios

import (
	"slices"
	"time"
)

// LeastTime is a lower bound of how long the timeline takes: the waits and
// delays of the longest way through it, conditions and actions counted as 0.
func (p *Plan) LeastTime() time.Duration {
	ends := map[string]time.Duration{}
	starts := map[string]time.Duration{}
	var longest time.Duration
	for range len(p.Timeline) + 1 { // references may point forward
		before := longest
		for _, s := range p.Timeline {
			starts[s.ID] = latest(s, starts, ends)
			ends[s.ID] = max(starts[s.ID]+s.least(), ends[s.ID])
			if s.Parent != "" {
				ends[s.Parent] = max(ends[s.Parent], ends[s.ID])
			}
			longest = max(longest, ends[s.ID])
		}
		if longest == before {
			break
		}
	}
	return longest
}

func latest(s Step, starts, ends map[string]time.Duration) time.Duration {
	at := []time.Duration{0}
	for _, n := range s.Needs {
		from := starts[n.Step]
		if n.Point == Ended {
			from = ends[n.Step]
		}
		at = append(at, from+n.Plus.Duration())
	}
	return slices.Max(at)
}

func (s Step) least() time.Duration {
	switch {
	case s.Wait != nil:
		return s.Wait.Time.Duration()
	case s.Do != nil:
		return s.Do.Args.Duration("for")
	}
	return 0
}
