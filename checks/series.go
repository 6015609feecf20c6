package checks

import (
	"cmp"
	"slices"
	"time"
)

// span is a stretch of the run, from inclusive, to exclusive.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return max(s.to-s.from, 0) }

func (s span) contains(t time.Duration) bool { return t >= s.from && t < s.to }

func (s span) overlaps(o span) bool { return s.from <= o.to && o.from <= s.to }

func (s span) clip(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// step is a value that holds from its time until the next step's.
type step struct {
	at time.Duration
	n  int
}

// steps is a step function, ascending in time; before its first step it is unknown.
type steps []step

// set appends a value; steps at the same time replace each other, equal values are left out.
func (s *steps) set(at time.Duration, n int) {
	if k := len(*s); k > 0 {
		last := &(*s)[k-1]
		if last.n == n {
			return
		}
		if last.at >= at {
			last.n = n
			return
		}
	}
	*s = append(*s, step{at, n})
}

// at gives the value at t; known is false before the first step.
func (s steps) at(t time.Duration) (n int, known bool) {
	i, found := slices.BinarySearchFunc(s, t, func(st step, t time.Duration) int { return cmp.Compare(st.at, t) })
	if found {
		return s[i].n, true
	}
	if i == 0 {
		return 0, false
	}
	return s[i-1].n, true
}

// over calls f for each stretch of constant value within w; what is before the first step is left out.
func (s steps) over(w span, f func(part span, n int)) {
	for i, st := range s {
		to := w.to
		if i+1 < len(s) {
			to = min(to, s[i+1].at)
		}
		part := span{max(st.at, w.from), to}
		if part.length() > 0 {
			f(part, st.n)
		}
	}
}

// min gives the smallest value within w; known is false where there is none.
func (s steps) min(w span) (least int, known bool) {
	s.over(w, func(_ span, n int) {
		if !known || n < least {
			least, known = n, true
		}
	})
	return least, known
}

// covered is how much of w lies after the first step.
func (s steps) covered(w span) (d time.Duration) {
	s.over(w, func(p span, _ int) { d += p.length() })
	return d
}

// countSpans turns stretches in which something was up into the number that was up, known from begin on.
func countSpans(begin time.Duration, up []span) steps {
	type edge struct {
		at    time.Duration
		delta int
	}
	var edges []edge
	for _, u := range up {
		if u.length() > 0 {
			edges = append(edges, edge{u.from, 1}, edge{u.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.delta, a.delta)) })
	s := steps{{begin, 0}}
	n := 0
	for i, e := range edges {
		n += e.delta
		if i+1 < len(edges) && edges[i+1].at == e.at {
			continue
		}
		s.set(max(e.at, begin), n)
	}
	return s
}

func totalLength(spans []span) (d time.Duration) {
	for _, s := range spans {
		d += s.length()
	}
	return d
}

func inAny(spans []span, t time.Duration) bool {
	for _, s := range spans {
		if s.contains(t) {
			return true
		}
	}
	return false
}

func overlapsAny(spans []span, o span) bool {
	return slices.ContainsFunc(spans, o.overlaps)
}
