package load

import (
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
)

// plan sets the session's entry to the next moment at which there is something to do. The lock is held.
func (s *session) plan() {
	if s.state == over {
		return
	}
	at := max(s.until, s.patient)
	if s.state == opened {
		at = min(s.nextCheck(), s.nextAct())
	}
	s.planned = max(at, s.now())
	s.e.queue.Set(&s.entry, s.e.moment(s.planned))
}

// nextCheck is when the path is to be asked for a sign of life, or to be called dead.
func (s *session) nextCheck() time.Duration {
	k := s.drawn.Session.Keepalive.Duration()
	if s.unasked {
		return never
	}
	if s.asked == 0 {
		return s.heard + k
	}
	return max(s.heard+2*k, s.asked+k, s.patient)
}

// nextAct is when the script wants to act, or its end is to be begun or given up.
func (s *session) nextAct() time.Duration {
	if s.ended > 0 {
		return max(s.ended+s.patience(), s.patient)
	}
	if s.writing {
		return max(s.blocked+s.e.bounds.stall, s.patient)
	}
	if !s.over(s.now()) {
		at := s.until
		if s.script != nil {
			at = min(at, s.script.next())
		}
		if since := s.owed(); since > 0 && s.until == never {
			at = min(at, max(since+s.e.bounds.stall, s.patient))
		}
		return at
	}
	if since := s.owed(); since > 0 && !s.cutAnyway() {
		return max(since+s.e.bounds.stall, s.patient)
	}
	return 0
}

// cutAnyway: a program without a terminal is not waited for when the run ends; what it owes it still may owe long.
func (s *session) cutAnyway() bool { return s.cutShort && !s.how.terminal }

// owed is since when the far side owes the script an answer.
func (s *session) owed() time.Duration {
	if s.script == nil {
		return 0
	}
	return s.script.owed()
}

// act does what is due. The queue calls it in a goroutine of its own, because writing may block.
func (s *session) act() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == over || s.gaveUp > 0 {
		return
	}
	now := s.now()
	certain := s.mayGiveUp(now)
	if s.state == opening {
		if now >= s.until && certain {
			s.giveUp(now, ended{Cut: history.CutTimeout, Reason: "the shell did not answer"})
			return
		}
		s.plan()
		return
	}
	if s.alive(now, certain) {
		s.perform(now, certain)
	}
	if s.gaveUp == 0 {
		s.plan()
	}
}

// perform does what the script wants, and ends the session when it is over.
func (s *session) perform(now time.Duration, certain bool) {
	if s.writing && s.ended == 0 {
		if now >= s.blocked+s.e.bounds.stall && certain {
			s.stalled(now, s.blocked, "what was sent was neither taken nor answered")
		}
		return
	}
	if s.ended > 0 {
		switch {
		case now < s.ended+s.patience() || !certain:
		case s.cutAnyway():
			s.abandon("the run ended while the command ran")
		default:
			s.stalled(now, s.ended, "no answer to the end of its input")
		}
		return
	}
	since := s.owed()
	// A script without a length has no end to wait for: it cannot go on without its answer.
	if !s.over(now) && (since == 0 || s.until < never) {
		if s.script != nil {
			s.feed(now)
		}
		return
	}
	if since > 0 && !s.cutAnyway() {
		if now >= since+s.e.bounds.stall && certain {
			s.stalled(now, since, "no answer to what was typed")
		}
		return
	}
	s.endInput(now)
}

// endInput says goodbye; the far side's program should exit now.
func (s *session) endInput(now time.Duration) {
	s.ended = now
	if s.how.terminal {
		s.write([]byte(s.how.ending()))
		return
	}
	s.writing, s.blocked = true, now
	go s.closeWrite()
}

func (s *session) closeWrite() {
	err := s.link.CloseWrite()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	switch {
	case s.state == over || s.gaveUp > 0:
	case err != nil:
		s.abandon("its input could not be ended: " + err.Error())
	default:
		s.plan()
	}
}

// buffers are shared by all sessions for what they type.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// feed lets the script act.
func (s *session) feed(now time.Duration) {
	p := buffers.Get().(*[]byte)
	if *p = s.script.act(now, (*p)[:0]); len(*p) == 0 {
		buffers.Put(p)
		return
	}
	s.send(*p)
	buffers.Put(p)
}

// write sends from a goroutine of its own.
func (s *session) write(p []byte) {
	s.writing, s.blocked = true, s.now()
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.send(p)
		if s.state != over && s.gaveUp == 0 {
			s.plan()
		}
	}()
}

// send writes without the lock, which is held before and after. That writing failed is seen by the reader too.
func (s *session) send(p []byte) {
	s.writing, s.blocked = true, s.now()
	s.plan() // of what is to be done if it takes long
	s.mu.Unlock()
	n, _ := s.link.Write(p)
	s.mu.Lock()
	s.writing = false
	if s.gaveUp == 0 {
		s.silence(s.blocked, s.now())
	}
	s.sent += int64(n)
}
