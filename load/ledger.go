package load

import (
	"slices"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/recordings"
)

// ledger counts what the streams do and keeps what the check of recordings needs.
type ledger struct {
	mu       sync.Mutex
	classes  map[history.Class]uint64
	recs     []recordings.Session
	late     []time.Duration // of sessions begun since the last sample
	latest   []recent        // opened lately
	lateBuf  []time.Duration
	inFlight int
}

type recent struct{ at, took time.Duration }

// lately is how far back Stats.LastOpens looks.
const lately = 10 * time.Second

// began notes how late a session began.
func (l *ledger) began(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, late)
	l.inFlight++
}

// lateness gives p99 and maximum since the last call.
func (l *ledger) lateness() (p99, most time.Duration) {
	l.mu.Lock()
	late := l.late
	l.late, l.lateBuf = l.lateBuf[:0], late
	l.mu.Unlock()
	if len(late) == 0 {
		return 0, 0
	}
	slices.Sort(late)
	return late[(len(late)*99+99)/100-1], late[len(late)-1]
}

// open notes that a session is open.
func (l *ledger) open(at, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	first := 0
	for first < len(l.latest) && l.latest[first].at < at-lately {
		first++
	}
	l.latest = append(l.latest[first:], recent{at, took})
}

// unopened notes that a session that was begun will not open.
func (l *ledger) unopened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
}

// add writes a session into the history.
func (l *ledger) add(e *Engine, s history.Session) {
	l.mu.Lock()
	if l.classes == nil {
		l.classes = map[history.Class]uint64{}
	}
	l.classes[s.Class]++
	if s.Recorded {
		l.recs = append(l.recs, recordings.Session{
			ID: s.ID, ServerSession: s.ServerSession, Type: s.Type, User: s.User, Open: s.Open, End: s.End,
			Local: s.Local, Proxy: s.Proxy, Agent: s.Agent, Lines: s.Lines, Class: s.Class,
		})
	}
	l.mu.Unlock()
	e.history.Record(history.Event{
		Due: s.Due, Subject: s.ID, Outcome: s.Class.Outcome(), Data: s,
	})
}

func (l *ledger) recorded() []recordings.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recs)
}

// opened is called by a session that is open, under its lock.
func (e *Engine) opened(s *session) {
	s.stream.opened.Add(1)
	s.stream.held.Add(1)
	e.ledger.open(s.open, s.open-s.due)
	a := s.about()
	e.history.Record(history.Event{
		At: s.open, Due: s.due, Subject: a.ID, Outcome: history.OK,
		Data: history.SessionOpened{
			ID: a.ID, Stream: a.Stream, Type: a.Type, Behaviour: a.Behaviour, Due: s.due, Start: s.start, Open: s.open,
			Proxy: a.Proxy, Agent: a.Agent, User: a.User, ServerSession: a.ServerSession, Recorded: a.Recorded,
		},
	})
}

// finished is called by a session that is over, without its lock.
func (e *Engine) finished(s *session, out history.Session) {
	e.mu.Lock()
	delete(e.live, s)
	e.mu.Unlock()
	if s.open > 0 {
		s.stream.held.Add(-1)
	} else {
		e.ledger.unopened()
	}
	e.ledger.add(e, out)
	s.stream.ended.Add(1)
	if class, last := s.on.leave(out.Class); last {
		s.stream.left.Add(1)
		s.stream.replace(class)
	}
	e.sessions.Done()
}

// Stats gives the counts at this moment; it may be called at any time.
func (e *Engine) Stats() Stats {
	var out Stats
	for _, s := range e.streams {
		x := s.sample(time.Now())
		out.Held += x.Held
		out.Due, out.Started, out.Opened = out.Due+x.Due, out.Started+x.Started, out.Opened+x.Opened
		out.Ended, out.Capped, out.Missed = out.Ended+x.Ended, out.Capped+x.Capped, out.Missed+x.Missed
	}
	l := &e.ledger
	now := e.history.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	out.Opening = l.inFlight
	out.Refused, out.Dropped, out.Stalled = l.classes[history.Refused], l.classes[history.Dropped], l.classes[history.Stalled]
	for _, o := range l.latest {
		if o.at >= now-lately {
			out.LastOpens = append(out.LastOpens, o.took)
		}
	}
	return out
}
