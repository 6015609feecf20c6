package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"shakedown.dev/shakedown/checks/gates"
)

// component is one part of the system with its capacity over time.
type component struct {
	name    string
	desired int // before the first change
	target  int // after the last one: what recovery comes back to
	ready   steps
	serving steps         // nil: no canary ever went through it
	since   time.Duration // when each pod of the start had its first canary: before that nobody knows what served
	until   time.Duration // its last canary: nor after that
}

// known is the part of w in which the capacity was watched.
func (c *component) known(w span) span {
	if c.serving == nil {
		return w
	}
	return w.clip(span{c.since, c.until})
}

// capacity is what is judged: serving where canaries say it, else ready.
func (c *component) capacity() (s steps, basis string) {
	if c.serving != nil {
		return c.serving, "serving"
	}
	return c.ready, "ready"
}

// components gives those whose replicas are known before any change, by name.
func (l *ledger) components() []*component {
	names := map[string]bool{}
	for n := range l.start.Desired {
		names[n] = true
	}
	if len(names) == 0 { // an older history
		for n := range l.replicas {
			names[n] = true
		}
	}
	var out []*component
	for _, n := range slices.Sorted(maps.Keys(names)) {
		c := &component{name: n, desired: l.desired(n), target: l.target(n), ready: l.readySteps(n), serving: l.servingSteps(n), since: l.firstRound(n)}
		for _, at := range l.canaryMoments(n) {
			c.until = at
		}
		out = append(out, c)
	}
	return out
}

// desired is the number of replicas before the first change.
func (l *ledger) desired(component string) int {
	if n, ok := l.start.Desired[component]; ok {
		return n
	}
	at := l.firstChange()
	if at == never {
		at = l.last
	}
	n, known := l.replicas[component].desired.at(at)
	if !known {
		n, _ = l.replicas[component].desired.at(l.last)
	}
	return n
}

// target is the number of replicas that the controller wants after the last change.
func (l *ledger) target(component string) int {
	if n, known := l.replicas[component].desired.at(l.lastChange()); known && n > 0 {
		return n
	}
	return l.desired(component)
}

// readySteps counts pods ready behind the Service; where several Services or none were watched, the
// pods' own readiness is taken, and the controller's count as the last resort.
func (l *ledger) readySteps(component string) steps {
	if services := l.endpoints[component]; len(services) == 1 {
		for _, s := range services {
			return s
		}
	}
	var up []span
	begin := never
	for _, p := range l.pods {
		if p.ref.Component == component && len(p.ready) > 0 {
			up = append(up, p.ready...)
			begin = earliest(begin, p.ready[0].from)
		}
	}
	if begin != never {
		return countSpans(begin, up)
	}
	return l.replicas[component].ready
}

// firstRound is when each pod that was there for the first canaries had answered its own or not. Canaries
// begin together but do not end together: a pod whose first one is still under way is not one that
// serves nobody.
func (l *ledger) firstRound(component string) time.Duration {
	begin := never
	for _, p := range l.pods {
		if p.ref.Component == component && len(p.probes) > 0 {
			begin = earliest(begin, p.probes[0].from)
		}
	}
	var end time.Duration
	for _, p := range l.pods {
		if p.ref.Component == component && len(p.probes) > 0 && p.probes[0].from < begin+l.probeInterval() {
			end = max(end, p.probes[0].at)
		}
	}
	return end
}

// servingSteps counts pods that answered their last canary; nil where there was none.
func (l *ledger) servingSteps(component string) steps {
	var up []span
	begin := never
	for _, p := range l.pods {
		if p.ref.Component != component || len(p.probes) == 0 {
			continue
		}
		up = append(up, p.serving(l.probeInterval(), l.last)...)
		begin = earliest(begin, p.probes[0].at)
	}
	if begin == never {
		return nil
	}
	return countSpans(begin, up)
}

func (l *ledger) probeInterval() time.Duration {
	if l.start.Bounds.Probe > 0 {
		return l.start.Bounds.Probe
	}
	return time.Second
}

// serving is while the pod's last canary had gone through. A canary that fails counts from when it was
// sent; a pod nobody could probe any more stops serving when the next canary was overdue.
func (p *pod) serving(interval, last time.Duration) []span {
	slices.SortFunc(p.probes, func(a, b probe) int { return cmp.Compare(a.at, b.at) })
	stale := 2*interval + interval/2
	var up []span
	for i, pr := range p.probes {
		if !pr.ok {
			continue
		}
		to := pr.at + stale
		if i+1 < len(p.probes) {
			if next := p.probes[i+1]; next.from <= to {
				to = next.at
				if !next.ok {
					to = max(next.from, pr.at)
				}
			}
		}
		if p.gone != never {
			to = min(to, p.gone)
		}
		up = append(up, span{pr.at, min(to, last)})
	}
	return up
}

// Capacity of a component; over the whole run that is from the first change to recovery.
func (v view) Capacity(name string, w gates.Window) (gates.Capacity, error) {
	c, parts, err := v.m.capacityWindow(name, w)
	if err != nil {
		return gates.Capacity{}, err
	}
	return c.over(parts), nil
}

// SecondsBelow is how long capacity was below a share of what was desired.
func (v view) SecondsBelow(name string, share float64, w gates.Window) (float64, error) {
	c, parts, err := v.m.capacityWindow(name, w)
	if err != nil {
		return 0, err
	}
	s, _ := c.capacity()
	var below time.Duration
	for _, part := range parts {
		s.over(part, func(p span, n int) {
			if float64(n) < share*float64(c.desired) {
				below += p.length()
			}
		})
	}
	return below.Seconds(), nil
}

func (m *Measures) capacityWindow(name string, w gates.Window) (*component, []span, error) {
	i := slices.IndexFunc(m.components, func(c *component) bool { return c.name == name })
	if i < 0 {
		return nil, nil, fmt.Errorf("capacity of %s was not measured: %w", name, gates.ErrNoSamples)
	}
	c := m.components[i]
	parts, err := m.l.spans(w)
	if err != nil {
		return nil, nil, err
	}
	if w.Kind == gates.Whole {
		parts = []span{m.disturbed}
	}
	s, _ := c.capacity()
	var known, asked time.Duration
	watched := make([]span, len(parts))
	for i, part := range parts {
		watched[i] = c.known(part)
		asked += part.length()
		known += s.covered(watched[i])
	}
	if c.desired == 0 || known == 0 || known < asked-2*watchedSlack {
		return nil, nil, fmt.Errorf("capacity of %s is not known for all of %s: %w", name, w, gates.ErrNoSamples)
	}
	return c, watched, nil
}

// over is DESIGN's definition: loss is the time integral of what is missing from desired.
func (c *component) over(parts []span) gates.Capacity {
	out := gates.Capacity{Desired: c.desired}
	s, _ := c.capacity()
	var all time.Duration
	lowest, lowestReady := -1, -1
	for _, part := range parts {
		s.over(part, func(p span, n int) {
			d := p.length()
			all += d
			out.ReplicaSecondsLost += float64(max(c.desired-n, 0)) * d.Seconds()
			if n == 0 {
				out.BlackoutSeconds += d.Seconds()
			}
			if lowest < 0 || n < lowest {
				lowest = n
			}
		})
		if n, known := c.ready.min(part); known && (lowestReady < 0 || n < lowestReady) {
			lowestReady = n
		}
	}
	out.Min, out.MinReady = max(lowest, 0), max(lowestReady, 0)
	if all > 0 && c.desired > 0 {
		out.LossRatio = out.ReplicaSecondsLost / (float64(c.desired) * all.Seconds())
	}
	return out
}

// canaryMoments are the moments of all canaries through pods of a component, ascending.
func (l *ledger) canaryMoments(component string) []time.Duration {
	var out []time.Duration
	for _, p := range l.pods {
		if p.ref.Component != component {
			continue
		}
		for _, pr := range p.probes {
			out = append(out, pr.at)
		}
	}
	slices.Sort(out)
	return out
}
