package checks

import (
	"cmp"
	"slices"
	"time"
)

// Timeline is a run as a picture shows it: equally spaced samples, and bands for what was going on.
// Moments are seconds since the run's start. Unknown samples are nil.
type Timeline struct {
	Step       float64           `json:"step"` // seconds a sample stands for
	T          []float64         `json:"t"`
	Held       []int             `json:"held"`    // at the sample's begin
	Opens      []int             `json:"opens"`   // within the sample
	Drops      []int             `json:"drops"`   // within the sample
	Refused    []int             `json:"refused"` // within the sample
	P99Ms      []*float64        `json:"p99Ms"`   // open latency of those due within the sample
	Components []ComponentSeries `json:"components"`
	Bands      []Band            `json:"bands"`
	Plots      []Plot            `json:"plots,omitempty"`
}

// ComponentSeries is one component's pods; each sample is the least within its time, so that a short dip shows.
type ComponentSeries struct {
	Name    string `json:"name"`
	Desired int    `json:"desired"`
	Ready   []*int `json:"ready"`
	Serving []*int `json:"serving"` // nil as a whole where no canary goes through the component
}

// Band is a stretch in which something was in force.
type Band struct {
	What   string  `json:"what"` // fault, rollout or phase
	Name   string  `json:"name"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Detail string  `json:"detail,omitempty"`
	// Lost are the sessions, Damaged the recordings that were lost to it alone.
	Lost    int `json:"lost,omitempty"`
	Damaged int `json:"damaged,omitempty"`
}

// maxSamples bounds the picture: more than a screen has points nobody sees.
const maxSamples = 1500

// Timeline computes the picture of the whole time the load was watched.
func (m *Measures) Timeline() Timeline {
	l := m.l
	whole := span{0, max(l.measured, time.Second)}
	step := time.Second
	for whole.length()/step > maxSamples {
		step += time.Second
	}
	n := int((whole.length() + step - 1) / step)
	t := Timeline{Step: step.Seconds(), T: make([]float64, n), Opens: make([]int, n), Drops: make([]int, n), Refused: make([]int, n)}
	for i := range n {
		t.T[i] = float64(i) * step.Seconds()
	}
	l.sampleSessions(&t, step)
	for _, c := range m.components {
		s := ComponentSeries{Name: c.name, Desired: c.desired, Ready: c.ready.sample(n, step)}
		if c.serving != nil {
			s.Serving = c.serving.sample(n, step)
			for i := range n {
				if at := time.Duration(i) * step; at+step <= c.since || at > c.until {
					s.Serving[i] = nil
				}
			}
		}
		t.Components = append(t.Components, s)
	}
	t.Bands = l.bands()
	t.Plots = l.plots(&t)
	return t
}

func (l *ledger) sampleSessions(t *Timeline, step time.Duration) {
	n := len(t.T)
	change := make([]int, n+1)
	hists := make([][]time.Duration, n)
	bucket := func(at time.Duration) int { return min(max(int(at/step), 0), n-1) }
	for i := range l.sessions {
		s := &l.sessions[i]
		if s.open > 0 {
			t.Opens[bucket(s.open)]++
			change[min(bucket(s.open)+1, n)]++
			change[min(bucket(s.end)+1, n)]--
			b := bucket(s.due)
			hists[b] = append(hists[b], s.open-s.due)
		}
		switch s.class {
		case dropped:
			t.Drops[bucket(s.end)]++
		case refused:
			t.Refused[bucket(s.end)]++
		}
	}
	held := 0
	for i := range n {
		held += change[i]
		t.Held = append(t.Held, held)
		t.P99Ms = append(t.P99Ms, p99(hists[i]))
	}
}

func p99(of []time.Duration) *float64 {
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	v := ms(of[(len(of)*99+99)/100-1])
	return &v
}

// sample gives the least value within each of n steps.
func (s steps) sample(n int, step time.Duration) []*int {
	out := make([]*int, n)
	at := 0
	for i := range out {
		w := span{time.Duration(i) * step, time.Duration(i+1) * step}
		for at+1 < len(s) && s[at+1].at <= w.from {
			at++
		}
		for j := at; j < len(s) && s[j].at < w.to; j++ {
			if out[i] == nil || s[j].n < *out[i] {
				out[i] = &s[j].n
			}
		}
	}
	return out
}

func (l *ledger) bands() []Band {
	bands := []Band{}
	costs := l.costs()
	for _, name := range l.entryOrder {
		for _, r := range l.entries[name].runs {
			bands = append(bands, Band{What: "phase", Name: name, From: inSeconds(r.from), To: inSeconds(r.to)})
		}
	}
	for _, f := range l.faults {
		if f.inject != never {
			c := costs["fault "+f.ID]
			bands = append(bands, Band{What: "fault", Name: f.ID, From: inSeconds(f.inject), To: inSeconds(max(l.faultOver(f), f.inject)),
				Detail: f.Name + " on " + f.targetNames(), Lost: c.Sessions(), Damaged: c.Recordings})
		}
	}
	for _, r := range l.rollouts {
		if r.disturbs() {
			c := costs["rollout "+r.id]
			bands = append(bands, Band{What: "rollout", Name: r.id, From: inSeconds(r.begin), To: inSeconds(r.force(l.last).to),
				Detail: r.verb + " " + r.from + " to " + r.to, Lost: c.Sessions(), Damaged: c.Recordings})
		}
	}
	slices.SortStableFunc(bands, func(a, b Band) int { return cmp.Compare(a.From, b.From) })
	return bands
}
