package checks

import (
	"cmp"
	"slices"
	"strings"

	"shakedown.dev/shakedown/history"
)

// LossGroup is a number of sessions that were lost in the same way for the same cause.
type LossGroup struct {
	Class     string   `json:"class"`
	Count     int      `json:"count"`
	Component string   `json:"component,omitempty"` // of the pod that explains it
	Pod       string   `json:"pod,omitempty"`
	PodUID    string   `json:"podUid,omitempty"`
	End       string   `json:"end,omitempty"`
	By        []string `json:"by,omitempty"`
	Found     bool     `json:"attributed"`
	Ambiguous bool     `json:"ambiguous,omitempty"`
	Cause     string   `json:"cause"`
	First     float64  `json:"first"` // seconds since the run's start
	Last      float64  `json:"last"`
	Examples  []string `json:"examples"`
}

// LostSession is one session of which the system owes an explanation.
type LostSession struct {
	ID     string        `json:"id"`
	Stream string        `json:"stream"`
	Kind   string        `json:"kind"`
	Class  string        `json:"class"`
	At     float64       `json:"at"`   // seconds since the run's start
	Held   float64       `json:"held"` // seconds it had been open
	Proxy  string        `json:"proxy,omitempty"`
	Agent  string        `json:"agent,omitempty"`
	Failed history.Phase `json:"failedPhase,omitempty"`
	Cut    history.Cut   `json:"cut,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Cause  Cause         `json:"cause"`
}

// LossGroups puts lost sessions together by class and cause, unattributed first, then the largest.
func (m *Measures) LossGroups() []LossGroup {
	groups := map[string]*LossGroup{}
	out := []LossGroup{}
	for i := range m.l.lost {
		ls := &m.l.lost[i]
		s := &m.l.sessions[ls.session]
		c := ls.cause
		text := firstText(c.group, c.Text)
		key := s.class.String() + "\x00" + text
		g := groups[key]
		if g == nil {
			g = &LossGroup{Class: s.class.String(), Component: c.Pod.Component, Pod: c.Pod.Name, PodUID: c.Pod.UID, End: c.End, By: c.By,
				Found: c.Found, Ambiguous: c.Ambiguous, Cause: text, First: inSeconds(s.end), Last: inSeconds(s.end)}
			groups[key] = g
		}
		g.Count++
		g.First, g.Last = min(g.First, inSeconds(s.end)), max(g.Last, inSeconds(s.end))
		if len(g.Examples) < examples {
			g.Examples = append(g.Examples, s.id)
		}
	}
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b LossGroup) int {
		return cmp.Or(boolFirst(!a.Found, !b.Found), cmp.Compare(b.Count, a.Count), cmp.Compare(a.First, b.First),
			cmp.Compare(a.Class, b.Class), strings.Compare(a.Cause, b.Cause))
	})
	return out
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// LostSessions lists up to limit lost sessions, unattributed first, else by time; total is how many there are.
func (m *Measures) LostSessions(limit int) (list []LostSession, total int) {
	list = []LostSession{}
	order := make([]int, len(m.l.lost))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &m.l.lost[a], &m.l.lost[b]
		return cmp.Or(boolFirst(!x.cause.Found, !y.cause.Found), cmp.Compare(m.l.sessions[x.session].end, m.l.sessions[y.session].end))
	})
	for _, i := range order[:min(limit, len(order))] {
		list = append(list, m.l.lostSession(&m.l.lost[i]))
	}
	return list, len(order)
}

func (l *ledger) lostSession(ls *lostSession) LostSession {
	s := &l.sessions[ls.session]
	out := LostSession{ID: s.id, Stream: l.strings.name(s.stream), Kind: l.strings.name(s.kind), Class: s.class.String(), At: inSeconds(s.end),
		Failed: ls.failed, Cut: ls.cut, Reason: ls.reason, Cause: *ls.cause}
	if s.open > 0 {
		out.Held = inSeconds(s.end - s.open)
	}
	if s.proxy >= 0 {
		out.Proxy = podName(l.pods[s.proxy])
	}
	if s.agent >= 0 {
		out.Agent = podName(l.pods[s.agent])
	}
	return out
}

// MaxListed bounds the sessions that verdict.json lists one by one.
const MaxListed = 1000

func (m *Measures) unattributed() []LostSession {
	list, _ := m.LostSessions(MaxListed)
	n := 0
	for n < len(list) && !list[n].Cause.Found {
		n++
	}
	return list[:n:n]
}

// LostRecordings lists up to limit recordings of which something is lost; total is how many there are.
func (m *Measures) LostRecordings(limit int) (list []LostRecording, total int) {
	all := m.l.lostRecordings()
	slices.SortStableFunc(all, func(a, b LostRecording) int { return boolFirst(!a.Cause.Found, !b.Cause.Found) })
	return all[:min(limit, len(all))], len(all)
}
