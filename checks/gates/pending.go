package gates

import (
	"fmt"

	"github.com/google/cel-go/common/types"
)

// mostTried bounds how many of the pending recordings are settled one by one to see what could become of a gate.
const mostTried = 64

// settled is data in which recordings that are pending have got a class.
type settled struct {
	Data
	into func(*Recordings) *int
	n    int // at most so many of each answer; the rest becomes complete
}

// Recordings gives the counts as they would be.
func (s settled) Recordings(f Filter, w Window) (Recordings, error) {
	r, err := s.Data.Recordings(f, w)
	if err != nil {
		return r, err
	}
	n := min(s.n, r.Pending)
	r.Complete += r.Pending - n
	*s.into(&r) += n
	r.Pending = 0
	return r, nil
}

// whatPendingCanBecome are the classes that a pending recording can end in.
func whatPendingCanBecome() []func(*Recordings) *int {
	return []func(*Recordings) *int{
		func(r *Recordings) *int { return &r.Complete },
		func(r *Recordings) *int { return &r.Missing },
		func(r *Recordings) *int { return &r.Truncated },
		func(r *Recordings) *int { return &r.Gap },
		func(r *Recordings) *int { return &r.NoEnd },
		func(r *Recordings) *int { return &r.Late },
	}
}

// remembered is data that is asked the same again and again.
type remembered struct {
	Data
	answers map[string]any
}

func remember[T any](r remembered, key string, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	a, ok := r.answers[key].(answer)
	if !ok {
		a.value, a.err = ask()
		r.answers[key] = a
	}
	return a.value, a.err
}

func (r remembered) Capacity(component string, w Window) (Capacity, error) {
	return remember(r, fmt.Sprint("capacity", component, w), func() (Capacity, error) { return r.Data.Capacity(component, w) })
}

func (r remembered) SecondsBelow(component string, share float64, w Window) (float64, error) {
	return remember(r, fmt.Sprint("below", component, share, w), func() (float64, error) { return r.Data.SecondsBelow(component, share, w) })
}

func (r remembered) Sessions(f Filter, w Window) (Sessions, error) {
	return remember(r, fmt.Sprintf("sessions %q %s", f, w), func() (Sessions, error) { return r.Data.Sessions(f, w) })
}

func (r remembered) Recordings(f Filter, w Window) (Recordings, error) {
	return remember(r, fmt.Sprintf("recordings %q %s", f, w), func() (Recordings, error) { return r.Data.Recordings(f, w) })
}

func (r remembered) Latency(name string, w Window) (Latency, error) {
	return remember(r, fmt.Sprint("latency", name, w), func() (Latency, error) { return r.Data.Latency(name, w) })
}

func (r remembered) Goodput(f Filter, w Window) (Goodput, error) {
	return remember(r, fmt.Sprintf("goodput %q %s", f, w), func() (Goodput, error) { return r.Data.Goodput(f, w) })
}

// turns says whether pending recordings, once known, could give the gate another outcome.
func (p *Program) turns(data Data, pending int, outcome types.Bool) bool {
	data = remembered{data, map[string]any{}}
	for _, into := range whatPendingCanBecome() {
		for i := range min(pending, mostTried) + 1 {
			n := i
			if i == mostTried {
				n = pending
			}
			out, _, err := p.whole.Eval(gateVariables(settled{data, into, n}, &trace{}))
			if err != nil || out != outcome {
				return true
			}
		}
	}
	return false
}

// doubtPending makes a gate inconclusive that pending recordings could turn.
func (p *Program) doubtPending(r *Result, data Data, pending int) {
	if r.Outcome == Inconclusive || pending == 0 || !p.turns(data, pending, types.Bool(r.Outcome == Pass)) {
		return
	}
	r.Outcome = Inconclusive
	r.Detail = fmt.Sprintf("%d recordings are pending, and what becomes of them could turn it", pending)
	if pending == 1 {
		r.Detail = "a recording is pending, and what becomes of it could turn it"
	}
}
