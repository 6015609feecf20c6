package checks

import (
	"fmt"
	"slices"
	"time"

	"shakedown.dev/shakedown/checks/gates"
)

// matches says whether a session passes a filter; the words of a filter are looked up once.
type matcher struct{ stream, kind int32 } // -1: any

func (l *ledger) matcher(f gates.Filter) matcher {
	m := matcher{-1, -1}
	if f.Stream != "" {
		m.stream = l.strings.id(f.Stream)
	}
	if f.Kind != "" {
		m.kind = l.strings.id(f.Kind)
	}
	return m
}

func (m matcher) match(s *session) bool {
	return (m.stream < 0 || m.stream == s.stream) && (m.kind < 0 || m.kind == s.kind)
}

// countSessions counts sessions by the window that contains the moment they opened, ended or were due.
func (l *ledger) countSessions(f gates.Filter, windows []span) gates.Sessions {
	var c gates.Sessions
	m := l.matcher(f)
	for i := range l.sessions {
		if s := &l.sessions[i]; m.match(s) {
			l.countSession(&c, s, windows)
		}
	}
	c.MaxHeld = l.maxHeld(m, windows)
	return c
}

func (l *ledger) countSession(c *gates.Sessions, s *session, windows []span) {
	if inAny(windows, s.due) {
		c.Offered++
	}
	if s.open > 0 && inAny(windows, s.open) {
		c.Opened++
	}
	if !inAny(windows, s.when()) {
		return
	}
	*classCount(c, s.class)++
	if s.lost >= 0 {
		cause := l.lost[s.lost].cause
		if !cause.Found {
			c.Unattributed++
		}
		if cause.Ambiguous {
			c.Ambiguous++
		}
	}
}

func classCount(c *gates.Sessions, k class) *int {
	return [classes]*int{&c.Clean, &c.Refused, &c.Dropped, &c.Stalled, &c.Unfinished, &c.Ours}[k]
}

// Sessions counts sessions in a window of the run. A window in which no session was due or held is an error.
func (v view) Sessions(f gates.Filter, w gates.Window) (gates.Sessions, error) {
	key := countKey{f, w}
	if c, ok := v.m.counted[key]; ok {
		return c, nil
	}
	windows, err := v.m.l.spans(w)
	if err != nil {
		return gates.Sessions{}, err
	}
	if !v.m.l.anySession(v.m.l.matcher(f), windows) {
		return gates.Sessions{}, fmt.Errorf("no session was due or held %s%s: %w", w, filterWords(f), gates.ErrNoSamples)
	}
	c := v.m.l.countSessions(f, windows)
	v.m.counted[key] = c
	return c, nil
}

// countKey remembers counts that several gates ask for.
type countKey struct {
	filter gates.Filter
	window gates.Window
}

func filterWords(f gates.Filter) string {
	s := ""
	for _, p := range [][2]string{{"stream", f.Stream}, {"kind", f.Kind}, {"mode", f.Mode}, {"storage", f.Storage}, {"holder", f.Holder}} {
		if p[1] != "" {
			s += fmt.Sprintf(" (%s %s)", p[0], p[1])
		}
	}
	return s
}

func (l *ledger) anySession(m matcher, windows []span) bool {
	for i := range l.sessions {
		s := &l.sessions[i]
		if s.class != ours && m.match(s) && overlapsAny(windows, span{s.due, max(s.end, s.due)}) {
			return true
		}
	}
	return false
}

// sweep has the moments at which sessions opened and ended, each ascending.
type sweep struct{ opens, ends []time.Duration }

// edges makes the sweep of a filter once.
func (l *ledger) edges(m matcher) sweep {
	if s, ok := l.sweeps[m]; ok {
		return s
	}
	var s sweep
	for i := range l.sessions {
		if x := &l.sessions[i]; x.open > 0 && m.match(x) {
			s.opens = append(s.opens, x.open)
			s.ends = append(s.ends, x.end)
		}
	}
	slices.Sort(s.opens)
	slices.Sort(s.ends)
	l.sweeps[m] = s
	return s
}

// maxHeld is the largest number of sessions that were open at once within the windows.
func (l *ledger) maxHeld(m matcher, windows []span) int {
	sw := l.edges(m)
	opens, ends := sw.opens, sw.ends
	most, held, e := 0, 0, 0
	for i, at := range opens {
		for e < len(ends) && ends[e] <= at {
			e++
		}
		held = i + 1 - e
		if held > most && inAny(windows, at) {
			most = held
		}
	}
	for _, w := range windows { // those held since before a window began
		o, _ := slices.BinarySearch(opens, w.from)
		n, _ := slices.BinarySearch(ends, w.from+1)
		most = max(most, o-n)
	}
	return most
}

// Goodput is what opened against what was due in a window; what the generator itself could not start is left out.
func (v view) Goodput(f gates.Filter, w gates.Window) (gates.Goodput, error) {
	windows, err := v.m.l.spans(w)
	if err != nil {
		return gates.Goodput{}, err
	}
	match := v.m.l.matcher(f)
	var g gates.Goodput
	for i := range v.m.l.sessions {
		s := &v.m.l.sessions[i]
		if s.class == ours || !match.match(s) || !inAny(windows, s.due) {
			continue
		}
		g.Offered++
		if s.open > 0 {
			g.Opened++
		}
	}
	if g.Offered == 0 {
		return g, fmt.Errorf("no session was due %s%s: %w", w, filterWords(f), gates.ErrNoSamples)
	}
	g.Ratio = float64(g.Opened) / float64(g.Offered)
	if d := v.m.l.loadedTime(windows).Seconds(); d > 0 {
		g.Rate, g.OfferedRate = float64(g.Opened)/d, float64(g.Offered)/d
	}
	return g, nil
}

// loadedTime is how much of the windows lies between the first session due and the last moment the load was watched.
func (l *ledger) loadedTime(windows []span) (d time.Duration) {
	load := span{max(l.loadBegan, 0), l.measured}
	for _, w := range windows {
		d += w.clip(load).length()
	}
	return d
}
