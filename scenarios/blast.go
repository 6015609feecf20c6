package scenarios

import (
	"fmt"
	"slices"
	"strings"
)

// Blast is the most that faults can have in force at one time, by the graph of
// the timeline: two faults count together unless one is certainly over before
// the other begins. Pods that fall with a node count as part of the node.
type Blast struct {
	Pods  int                `json:"pods"`
	Nodes int                `json:"nodes"`
	Share map[string]float64 `json:"share,omitempty"` // of a component's replicas, where these are known
	// Unknown are steps whose reach depends on facts that are not known.
	Unknown []string `json:"unknown,omitempty"`
	PodsBy  []string `json:"podsBy,omitempty"`  // the steps that make up Pods
	NodesBy []string `json:"nodesBy,omitempty"` // the steps that make up Nodes
}

// hit is one fault with its weight.
type hit struct {
	step      Step
	n         int
	component string
}

func worstCase(steps []Step, facts Facts) Blast {
	b := Blast{Share: map[string]float64{}}
	var pods, nodes []hit
	for _, s := range steps {
		if s.Do == nil || !s.Fault || s.Hits == HitsNothing {
			continue
		}
		sel := s.Do.Selects["select"]
		if sel == nil {
			continue
		}
		n, known := facts.reach(s.Hits, *sel)
		if !known {
			b.Unknown = append(b.Unknown, s.ID)
		}
		if s.Hits == HitsNodes {
			nodes = append(nodes, hit{s, n, ""})
		} else {
			pods = append(pods, hit{s, n, sel.Component})
		}
	}
	over := overlaps(steps)
	b.Pods, b.PodsBy = heaviest(pods, over)
	b.Nodes, b.NodesBy = heaviest(nodes, over)
	for _, h := range pods {
		c := facts.Components[h.component]
		if _, done := b.Share[h.component]; done || c.Replicas == 0 {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(pods), func(o hit) bool { return o.component != h.component })
		n, _ := heaviest(same, over)
		b.Share[h.component] = min(1, float64(n)/float64(c.Replicas))
	}
	return b
}

// overlaps says of two steps whether their faults can be in force together.
func overlaps(steps []Step) func(a, b Step) bool {
	before := waitsFor(steps)
	ends := map[string]node{} // when a fault is certainly over; missing: never
	for _, s := range steps {
		if !s.Lasting {
			ends[s.ID] = node{s.ID, Ended}
		}
	}
	for _, s := range steps {
		if s.Do != nil && s.Do.Action == "heal" {
			ends[s.Do.Args.String("of")] = node{s.ID, Ended}
		}
	}
	earlierThan := map[string]map[node]bool{}
	over := func(a, b Step) bool {
		end, ends := ends[a.ID]
		if !ends {
			return false
		}
		if earlierThan[b.ID] == nil {
			earlierThan[b.ID] = earlier(before, node{b.ID, Started})
		}
		return earlierThan[b.ID][end]
	}
	return func(a, b Step) bool { return !over(a, b) && !over(b, a) }
}

// heaviest finds the set of hits, all of which overlap, with the greatest sum:
// a heaviest antichain, by branching. Past its budget it takes everything,
// which is never too little.
func heaviest(hits []hit, over func(a, b Step) bool) (int, []string) {
	budget := 50_000
	var best func(rest []hit) (int, []string)
	best = func(rest []hit) (int, []string) {
		if len(rest) == 0 {
			return 0, nil
		}
		if budget--; budget < 0 {
			return sum(rest)
		}
		first, others := rest[0], rest[1:]
		var beside []hit
		for _, h := range others {
			if over(first.step, h.step) {
				beside = append(beside, h)
			}
		}
		with, names := best(beside)
		with += first.n
		if len(beside) == len(others) {
			return with, append([]string{first.step.ID}, names...)
		}
		if without, others := best(others); without > with {
			return without, others
		}
		return with, append([]string{first.step.ID}, names...)
	}
	return best(hits)
}

func sum(hits []hit) (int, []string) {
	total, names := 0, []string(nil)
	for _, h := range hits {
		total += h.n
		names = append(names, h.step.ID)
	}
	return total, names
}

// over says how the blast radius exceeds the limits, empty if it does not.
func (b Blast) over(l Limits) []string {
	var out []string
	if b.Pods > l.Pods {
		out = append(out, fmt.Sprintf("faults can hit %d pods at one time (%s), limits.pods is %d", b.Pods, strings.Join(b.PodsBy, ", "), l.Pods))
	}
	if b.Nodes > l.Nodes {
		out = append(out, fmt.Sprintf("faults can hit %d nodes at one time (%s), limits.nodes is %d", b.Nodes, strings.Join(b.NodesBy, ", "), l.Nodes))
	}
	for _, c := range sortedKeys(b.Share) {
		if b.Share[c] > l.Share {
			out = append(out, fmt.Sprintf("faults can hit %s of %s at one time, limits.share is %s", FormatShare(b.Share[c]), c, FormatShare(l.Share)))
		}
	}
	return out
}
