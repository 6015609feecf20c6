package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/faults"
)

// tail is how many print events truncate-recording and gap-recording take away when the rule gives no time.
const tail = 3

// plant wraps a sink with the recording faults that strike this session.
func plant(s sink, reg *faults.Registry, session string) sink {
	if _, ok := reg.Active(faults.LoseRecording, session); ok {
		s = &loser{sink: s, faults: reg, session: session}
	}
	if rule, ok := reg.Active(faults.TruncateRecording, session); ok {
		s = &truncater{sink: s, faults: reg, session: session, rule: rule, began: time.Now()}
	}
	if _, ok := reg.Active(faults.GapRecording, session); ok {
		s = &gapper{sink: s, faults: reg, session: session}
	}
	if _, ok := reg.Active(faults.DuplicateRecording, session); ok {
		s = &duplicator{sink: s, faults: reg, session: session}
	}
	return s
}

// loser throws a finished recording away.
type loser struct {
	sink
	faults  *faults.Registry
	session string
}

func (l *loser) complete(context.Context) error {
	if t, ok := l.sink.(*tee); ok {
		if f, ok := t.sink.(*fileSink); ok {
			if err := f.discard(); err != nil {
				return err
			}
			l.faults.Record(faults.LoseRecording, l.session, "recording thrown away when it was complete")
		}
	}
	return nil
}

// lostSync is a synchronous session whose events reach the audit log but no recording.
type lostSync struct {
	eventsOnly
	faults  *faults.Registry
	session string
}

func (l *lostSync) complete(context.Context) error {
	l.faults.Record(faults.LoseRecording, l.session, "no recording was opened")
	return nil
}

// truncater drops what is printed last: everything after the rule's time, or without one the last three print events.
type truncater struct {
	sink
	faults  *faults.Registry
	session string
	rule    faults.Rule
	began   time.Time

	held    []events.AuditEvent // from the third-last print event on
	prints  int                 // of them
	dropped int
}

func (t *truncater) write(event events.AuditEvent) error {
	isPrint := event.GetType() == TypePrint
	if t.rule.After > 0 {
		if isPrint && time.Since(t.began) > t.rule.After {
			t.dropped++
			return nil
		}
		return t.sink.write(event)
	}
	if isPrint {
		t.prints++
	} else if t.prints == 0 {
		return t.sink.write(event)
	}
	t.held = append(t.held, event)
	return t.release()
}

// release hands on held events until no more than tail print events are held.
func (t *truncater) release() error {
	for t.prints > tail || (len(t.held) > 0 && t.held[0].GetType() != TypePrint) {
		event := t.held[0]
		t.held = t.held[1:]
		if event.GetType() == TypePrint {
			t.prints--
		}
		if err := t.sink.write(event); err != nil {
			return err
		}
	}
	return nil
}

func (t *truncater) complete(ctx context.Context) error {
	for _, event := range t.held {
		if event.GetType() == TypePrint {
			t.dropped++
			continue
		}
		if err := t.sink.write(event); err != nil {
			return err
		}
	}
	if t.dropped > 0 {
		t.faults.Record(faults.TruncateRecording, t.session, fmt.Sprintf("last %d print events missing", t.dropped))
	}
	return t.sink.complete(ctx)
}

// gapper takes away three print events after the second, once there is one behind them.
type gapper struct {
	sink
	faults  *faults.Registry
	session string

	seen   int                 // print events passed on, until the gap begins
	held   []events.AuditEvent // from the first print event of the gap on
	prints int                 // of them
	done   bool
}

func (g *gapper) write(event events.AuditEvent) error {
	isPrint := event.GetType() == TypePrint
	switch {
	case g.done:
		return g.sink.write(event)
	case isPrint && g.seen < 2:
		g.seen++
		return g.sink.write(event)
	case isPrint && g.prints < tail:
		g.prints++
		g.held = append(g.held, event)
		return nil
	case isPrint:
		return g.gap(event)
	case len(g.held) > 0: // in its place, should nothing come behind it
		g.held = append(g.held, event)
		return nil
	}
	return g.sink.write(event)
}

// gap leaves the held print events out now that one follows them.
func (g *gapper) gap(next events.AuditEvent) error {
	g.done = true
	g.faults.Record(faults.GapRecording, g.session, fmt.Sprintf("%d print events missing from index %d", g.prints, g.held[0].GetIndex()))
	for _, event := range g.held {
		if event.GetType() == TypePrint {
			continue
		}
		if err := g.sink.write(event); err != nil {
			return err
		}
	}
	g.held = nil
	return g.sink.write(next)
}

// complete gives back what was held, if nothing came behind it: that would be no gap.
func (g *gapper) complete(ctx context.Context) error {
	for _, event := range g.held {
		if err := g.sink.write(event); err != nil {
			return err
		}
	}
	return g.sink.complete(ctx)
}

// duplicator writes the second print event twice.
type duplicator struct {
	sink
	faults  *faults.Registry
	session string
	seen    int
}

func (d *duplicator) write(event events.AuditEvent) error {
	if err := d.sink.write(event); err != nil || event.GetType() != TypePrint {
		return err
	}
	if d.seen++; d.seen != 2 {
		return nil
	}
	d.faults.Record(faults.DuplicateRecording, d.session, fmt.Sprintf("print event %d written twice", event.GetIndex()))
	return d.sink.write(event)
}
