package load

import (
	"cmp"
	"context"
	"errors"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
)

// closing is how long the protocol may take to tell how a session ended.
const closing = 2 * time.Second

// finish writes the ledger's last word on a session whose reading has ended.
func (s *session) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.e.life), closing)
	how := s.link.Ended(ctx)
	cancel()
	s.link.Close()
	s.mu.Lock()
	s.e.queue.Stop(&s.entry)
	wasOpen := s.state == opened
	s.state = over
	end := s.gaveUp
	if end == 0 {
		end = s.now()
	}
	out := s.summary(end)
	if wasOpen {
		s.close(&out, how)
	} else {
		s.unopened(&out, how)
	}
	atEnd := s.atEnd
	s.mu.Unlock()
	if atEnd != nil {
		atEnd()
	}
	s.e.finished(s, out)
}

// recently is how short before the end words of the server must have come to belong to it.
const recently = 2 * time.Second

// close judges a session that was open.
func (s *session) close(out *history.Session, how ended) {
	ev := evidence{
		ending: s.ended > 0 || !s.how.terminal, cutShort: s.cutShort, want: s.drawn.Session.Exit, anyExit: s.how.shell,
		flaw: s.flaw(), forced: s.forced, silent: s.silent, left: s.abandoned, end: how, longest: s.longest, stall: s.e.bounds.stall,
	}
	if s.forced != nil {
		ev.end = *s.forced
	}
	if !s.how.shell && s.how.terminal && s.said > 0 && s.said >= out.End-recently {
		ev.words = s.words
	}
	if w, ok := s.script.(speaker); ok {
		ev.words = w.said()
	}
	j := ev.judge()
	out.Class, out.Cut, out.Exit, out.Reason = j.class, j.cut, j.exit, j.reason
}

// unopened is a session whose far side never answered: refused in its last phase.
func (s *session) unopened(out *history.Session, how ended) {
	out.Failed = s.lastPhase()
	if s.forced != nil {
		how = *s.forced
	}
	out.Class, out.Cut, out.Reason = history.Refused, how.Cut, how.Reason
	if how.Exited {
		out.Exit, out.Cut = &how.Status, history.CutProtocol
		out.Reason = join("the shell ended before it answered: "+how.status(), how.Reason)
	}
	if s.abandoned {
		out.Class, out.Failed = history.Unfinished, ""
	}
	if n := len(out.Phases); n > 0 {
		out.Phases[n-1].Took += max(0, out.End-s.heard)
	}
}

// lastPhase is the phase in which the first answer is awaited.
func (s *session) lastPhase() history.Phase {
	if p := s.link.Phases(); len(p) > 0 {
		return p[len(p)-1].Phase
	}
	return history.PhaseShell
}

// refuse writes down a session that could not be opened at all.
func (s *session) refuse(err error) {
	s.mu.Lock()
	s.state = over
	out := s.summary(s.now())
	s.mu.Unlock()
	out.Class, out.Reason = history.Refused, err.Error()
	var e *openError
	if errors.As(err, &e) {
		out.Failed, out.Cut, out.Phases = e.Phase, e.Cut, e.Phases
	}
	switch {
	case ourFault(err):
		out.Class, out.Failed, out.Cut = history.Ours, "", ""
	case s.e.life.Err() != nil:
		out.Class, out.Failed, out.Cut = history.Unfinished, "", ""
		out.Reason = "the run ended while it was being opened"
	case s.expired():
		out.Class, out.Failed, out.Cut = history.Ours, "", ""
	}
	s.e.finished(s, out)
}

// expired tells whether the user's certificates have ended, which is our fault and not the system's.
func (s *session) expired() bool {
	id := s.e.user(s.to.User)
	return id != nil && id.Expired(time.Now(), 0)
}

// flaw is what the script says is wrong with what came.
func (s *session) flaw() string {
	if i, ok := s.script.(inspector); ok {
		return i.flaw()
	}
	return ""
}

// summary is the session as far as it is known, without how it ended.
func (s *session) summary(end time.Duration) history.Session {
	out := s.about()
	out.Start, out.Open, out.End, out.Want = s.start, s.open, end, s.drawn.Length
	out.Gaps, out.BytesSent, out.BytesReceived, out.LastHeard = s.gaps, s.sent, s.received, s.heard
	if s.link != nil {
		out.Phases = s.phases()
		out.Local, out.Remote = s.link.Addresses()
		if l, ok := s.link.(interface{ Received() int64 }); ok {
			out.BytesReceived = l.Received()
		}
	}
	if s.checker != nil {
		out.Lines = s.lines()
	}
	if c, ok := s.script.(counter); ok {
		out.Answers = c.answers()
	}
	return out
}

// about is what is known of a session from its beginning.
func (s *session) about() history.Session {
	session := s.drawn.Session
	out := history.Session{
		ID: s.id, Stream: s.stream.plan.Name, Type: session.Kind, Behaviour: session.Behaviour,
		User: s.e.userName(s.to.User), Due: s.due, Proxy: s.to.Proxy.Pod, ProxyHow: cmp.Or(s.via, viaDialled),
		Agent: s.to.Node, ServerSession: s.server, Recorded: s.recorded(),
	}
	if s.to.Pod.Target.Pod != "" {
		out.Agent = history.Agent{Host: s.to.Pod.Target.Pod, Pod: s.to.Pod.Pod}
	}
	return out
}

// recorded tells whether a recording is expected: Teleport records terminals that were opened.
func (s *session) recorded() bool {
	return s.how.terminal && s.open > 0 && s.e.mode != "off"
}

// phases are the phases of opening; waiting for the first answer belongs to the last.
func (s *session) phases() []history.PhaseTime {
	out := append([]history.PhaseTime(nil), s.link.Phases()...)
	if n := len(out); n > 0 && s.open > 0 {
		var before time.Duration
		for _, p := range out[:n-1] {
			before += p.Took
		}
		out[n-1].Took = max(out[n-1].Took, s.open-s.start-before)
	}
	return out
}

func (s *session) lines() history.Lines {
	t := &s.checker.Tally
	l := history.Lines{Token: lines.Token(s.drawn.Seed), Acked: t.Count(), Ranges: t.Ranges, Sum: t.Sum}
	if s.script != nil {
		l.Sent = s.script.sent()
	}
	// A line that never came, while later ones did, came back wrong too.
	l.Bad = max(t.Bad, t.Holes())
	return l
}
