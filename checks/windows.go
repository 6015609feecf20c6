package checks

import (
	"fmt"
	"time"

	"shakedown.dev/shakedown/checks/gates"
)

// spans gives the stretches of the run a gate's window stands for, or why there are none.
func (l *ledger) spans(w gates.Window) ([]span, error) {
	if w.Kind == gates.Whole {
		return []span{l.whole()}, nil
	}
	p, ok := l.entries[w.Phase]
	if !ok || len(p.runs) == 0 {
		return nil, fmt.Errorf("phase %s never began: %w", w.Phase, gates.ErrNoSamples)
	}
	switch w.Kind {
	case gates.During:
		return p.runs, nil
	case gates.Before:
		return []span{{0, p.runs[0].from}}, nil
	}
	return l.afterPhase(p, w)
}

// whole ends a little after the last event, so that what ended with the run is inside.
func (l *ledger) whole() span { return span{0, l.last + 1} }

func (l *ledger) afterPhase(p *phase, w gates.Window) ([]span, error) {
	end := p.runs[len(p.runs)-1].to
	if w.For == 0 {
		return []span{{end, max(l.measured+1, end)}}, nil // to the end of the load: later nothing is watched
	}
	if seen := l.measured - end; seen < w.For-watchedSlack {
		return nil, fmt.Errorf("only %s of the %s after %s were watched", clock(max(seen, 0)), w.For, w.Phase)
	}
	return []span{{end, end + w.For}}, nil
}

// watchedSlack is how much of a window may be missing: samples come once a second.
const watchedSlack = 1500 * time.Millisecond

// judgedTo is until when everything must have been watched: the end of the timeline. The load may take
// a little longer to end, and reading recordings back much longer.
func (l *ledger) judgedTo() time.Duration {
	end := time.Duration(0)
	for _, p := range l.entries {
		for _, r := range p.runs {
			end = max(end, r.to)
		}
	}
	if end == 0 {
		return l.measured
	}
	return min(end, l.measured)
}
