package checks

import (
	"time"

	"shakedown.dev/shakedown/history"
)

// Cost is what was lost to one fault or rollout, by the causes found, and how few pods there were while it lasted.
type Cost struct {
	Refused int `json:"refused"`
	Dropped int `json:"dropped"`
	Stalled int `json:"stalled"`
	// Recordings are those of which something is lost, Missing of these the ones of which all is.
	Recordings int `json:"recordings"`
	Missing    int `json:"recordingsMissing"`
	// Shared are lost sessions, SharedRecordings damaged recordings, for which it is one of several possible causes;
	// they are in none of the counts above.
	Shared           int `json:"shared"`
	SharedRecordings int `json:"sharedRecordings"`
	// Least has the fewest pods of each component in its window; others may have taken them away. A component that
	// was not watched then is absent.
	Least map[string]Least `json:"least,omitempty"`
}

// Least is how few pods of a component there were at once.
type Least struct {
	Pods    int    `json:"pods"`
	Desired int    `json:"desired"`
	Basis   string `json:"basis"` // as in ComponentCapacity
}

// Sessions is how many were lost to it alone.
func (c Cost) Sessions() int { return c.Refused + c.Dropped + c.Stalled }

// costs puts each loss on the account of what explains it, named as in Cause.By.
func (l *ledger) costs() map[string]*Cost {
	out := map[string]*Cost{}
	for _, f := range l.faults {
		out["fault "+f.ID] = &Cost{}
	}
	for _, r := range l.rollouts {
		out["rollout "+r.id] = &Cost{}
	}
	for i := range l.lost {
		ls := &l.lost[i]
		class := l.sessions[ls.session].class
		ls.cause.charge(out, func(c *Cost) { *c.of(class)++ }, func(c *Cost) { c.Shared++ })
	}
	for i := range l.damaged {
		d := &l.damaged[i]
		missing := l.recordings[d.recording].class.name() == history.RecMissing
		d.cause.charge(out, func(c *Cost) {
			c.Recordings++
			if missing {
				c.Missing++
			}
		}, func(c *Cost) { c.SharedRecordings++ })
	}
	return out
}

// charge counts a loss for the one that did it, or for each that may have.
func (c *Cause) charge(to map[string]*Cost, alone, shared func(*Cost)) {
	if cost := to[c.sole]; cost != nil {
		alone(cost)
		return
	}
	for _, by := range c.By {
		if cost := to[by]; cost != nil {
			shared(cost)
		}
	}
}

func (c *Cost) of(k class) *int {
	switch k {
	case refused:
		return &c.Refused
	case stalled:
		return &c.Stalled
	}
	return &c.Dropped
}

// least has the fewest pods of each component within w, as far as they were watched.
func (m *Measures) least(w span) map[string]Least {
	out := map[string]Least{}
	for _, c := range m.components {
		s, basis := c.capacity()
		if n, known := s.min(c.known(w)); known {
			out[c.name] = Least{Pods: n, Desired: c.desired, Basis: basis}
		}
	}
	return out
}

// window is from when a fault was injected until it had done what it was to do, and the next canaries had shown it.
func (l *ledger) window(f *fault) span { return span{f.inject, l.faultOver(f) + canariesLater} }

// canariesLater is when each pod has had another canary.
const canariesLater = 2 * time.Second
