package checks

import (
	"fmt"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// faultsTrue: every planned fault was injected, proved that it bit and proved that it healed.
func faultsTrue(m *Measures) (bool, string) {
	var bad []string
	for _, f := range m.l.faults {
		if why := f.untrue(); why != "" {
			bad = append(bad, why)
		}
	}
	bad = append(bad, m.absent()...)
	if len(bad) > 0 {
		return false, strings.Join(bad, "; ")
	}
	if len(m.l.faults) == 0 {
		return true, "none was planned"
	}
	return true, fmt.Sprintf("%d of %d", len(m.l.faults), len(m.l.faults))
}

func (f *fault) untrue() string {
	name := f.ID
	if f.Name != "" && f.Name != f.ID {
		name += " (" + f.Name + ")"
	}
	why := f.why()
	switch {
	case f.stages[history.FaultEmpty]:
		return because(name+" selected nothing", firstText(why, f.Selector))
	case f.stages[history.FaultUnavailable]:
		return because(name+" is not available here", why)
	case f.inject == never:
		return because(name+" was never injected", why)
	case f.stages[history.FaultNotBitten], !f.bites():
		return because(name+" did not prove that it bit", why)
	case f.stages[history.FaultNotHealed], !f.heals():
		return because(name+" did not prove that it healed", why)
	case f.stages[history.FaultFailed]:
		return because(name+" failed", why)
	}
	return ""
}

// why is what the fault itself said, without its name and without what is said of it here anyway.
func (f *fault) why() string {
	why := strings.TrimPrefix(firstText(f.Error, f.Detail), f.ID+": ")
	for _, again := range []string{"did not prove that it bit: ", "did not prove that it healed: "} {
		why = strings.TrimPrefix(why, again)
	}
	return why
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// absent says which planned faults and rollouts left no trace in the history, unless they were to be
// skipped when their condition was missed. An entry that is repeated must be there each time.
func (m *Measures) absent() (bad []string) {
	rounds := map[string]int{}
	for _, e := range m.Expect.Entries {
		rounds[e.Name]++
	}
	for _, e := range m.Expect.Entries {
		n, seen := rounds[e.Name], m.l.traces(e)
		if rounds[e.Name] = 0; n == 0 || seen >= n {
			continue
		}
		p, ok := m.l.entries[e.Name]
		what := fmt.Sprintf("%s (%s)", e.Name, e.Action)
		if n > 1 {
			what = fmt.Sprintf("%d of %d times %s", n-seen, n, what)
		}
		switch {
		case ok && (p.skips || p.missed) && (e.OrElse == "skip" || p.orElse == "skip"):
		case ok && p.missed:
			bad = append(bad, because(what+" never began: its condition did not hold in time", p.when))
		default:
			bad = append(bad, what+" was planned and never began")
		}
	}
	return bad
}

// traces counts the faults or rollouts that a timeline entry did.
func (l *ledger) traces(e PlannedEntry) (n int) {
	for _, f := range l.faults {
		if !e.Rollout && entryName(f.Entry) == e.Name {
			n++
		}
	}
	for _, r := range l.rollouts {
		if e.Rollout && entryName(r.entry) == e.Name {
			n++
		}
	}
	return n
}

// entryName is a timeline entry's name without the number of its round.
func entryName(id string) string {
	name, _, _ := strings.Cut(id, "#")
	return name
}

// healthyBefore: the conductor found the system well before each change.
func healthyBefore(m *Measures) (bool, string) {
	n := 0
	for _, h := range m.l.health {
		if h.When != "before" {
			continue
		}
		if n++; !h.Well {
			return false, because(fmt.Sprintf("the system was not well before %s, at %s", h.Of, clock(h.at)), h.Detail)
		}
	}
	if n == 0 {
		return true, "no look was recorded"
	}
	return true, fmt.Sprintf("well in each of %d looks", n)
}

func rolloutsEnded(m *Measures) (bool, string) {
	var bad []string
	n := 0
	for _, r := range m.l.rollouts {
		if r.disturbs() {
			n++
		}
		if r.end == never {
			bad = append(bad, because(r.verb+" "+r.id+" never ended", r.err))
		}
	}
	if len(bad) > 0 {
		return false, strings.Join(bad, "; ")
	}
	return true, fmt.Sprintf("%d", n)
}

// canariesThroughout: wherever a component is judged by canaries, they came without a break while
// there were pods to probe; and the proxies are always judged by canaries.
func canariesThroughout(m *Measures) (bool, string) {
	n := 0
	for _, c := range m.components {
		if c.desired == 0 {
			continue
		}
		if c.serving == nil {
			if c.name == "proxy" {
				return false, "no canary went through a proxy pod"
			}
			continue
		}
		n++
		if gap, at := m.l.canaryGap(c, m.disturbed.clip(span{0, m.l.judgedTo()})); gap > max(5*m.l.probeInterval(), 5*time.Second) {
			return false, fmt.Sprintf("no canary through %s for %s from %s on", c.name, clock(gap), clock(at))
		}
	}
	return true, fmt.Sprintf("%d canaries through %d components", m.l.probes, n)
}

// canaryGap is the longest time without a canary's result through any pod of c, while some pod was ready.
func (l *ledger) canaryGap(c *component, w span) (gap, from time.Duration) {
	moments := l.canaryMoments(c.name)
	last := w.from
	for i := range len(moments) + 1 {
		t := w.to
		if i < len(moments) {
			t = min(moments[i], w.to)
		}
		var ready time.Duration
		c.ready.over(span{last, t}, func(p span, n int) {
			if n > 0 {
				ready += p.length()
			}
		})
		if ready > gap {
			gap, from = ready, last
		}
		last = max(last, t)
	}
	return gap, from
}
