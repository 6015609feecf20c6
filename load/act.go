package load

import (
	"context"
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

// How late this program may look at a session without doubting itself, and how long it then waits before it gives
// the session up: answers may be waiting to be read that came in time.
const (
	oversleep = 100 * time.Millisecond
	hindsight = time.Second
)

// mayGiveUp tells whether the silence is the far side's and not this program's own.
func (s *session) mayGiveUp(now time.Duration) bool {
	if s.planned > 0 && now-s.planned > oversleep {
		s.patient = now + hindsight
	}
	return now >= s.patient
}

// nextCheck is when the path is to be asked for a sign of life, or to be called dead.
func (s *session) nextCheck() time.Duration {
	k := s.drawn.Session.Keepalive.Duration()
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
	if since := s.owed(); since > 0 {
		return max(since+s.e.bounds.stall, s.patient)
	}
	return 0
}

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

// alive asks for a sign of life when it is time, and gives the session up when none came.
func (s *session) alive(now time.Duration, certain bool) bool {
	k := s.drawn.Session.Keepalive.Duration()
	switch {
	case certain && s.asked > 0 && now >= s.asked+k && now >= s.heard+2*k:
		s.silence(s.heard, now)
		s.gaveUp = now // so that nothing else is begun meanwhile
		go s.lost()
		return false
	case s.asked == 0 && now >= s.heard+k:
		s.asked = now
		go s.ping()
	}
	return true
}

// ping waits for one answer to a keep-alive.
func (s *session) ping() {
	err := s.link.Ping(s.e.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.state == over {
		return // the reader sees it too, or the path is silent
	}
	now := s.now()
	s.silence(s.asked, now)
	s.asked = 0
	s.hear(now)
	s.plan()
}

// silentHop is how long the proxy is given to answer for itself when the node does not.
const silentHop = time.Second

// lost gives up a session whose path is dead.
func (s *session) lost() {
	ctx, cancel := context.WithTimeout(s.e.life, silentHop)
	where := s.link.Silent(ctx)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp(s.gaveUp, ended{Cut: history.CutKeepalive, Reason: "no answer to a keep-alive: " + where})
}

// giveUp ends a session that the far side does not end. The reader finishes it.
func (s *session) giveUp(now time.Duration, why ended) {
	s.gaveUp, s.forced = now, &why
	go s.link.Close()
}

// perform does what the script wants, and ends the session when it is over.
func (s *session) perform(now time.Duration, certain bool) {
	if s.writing {
		return // the far side does not read
	}
	if s.ended > 0 {
		switch {
		case now < s.ended+s.patience() || !certain:
		case s.cutShort && !s.how.terminal:
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
			s.type_(now)
		}
		return
	}
	if since > 0 {
		if now >= since+s.e.bounds.stall && certain {
			s.stalled(now, since, "no answer to what was typed")
		}
		return
	}
	s.endInput(now)
}

// stalled gives up a session that stayed open and owes an answer for too long.
func (s *session) stalled(now, since time.Duration, what string) {
	s.silence(since, now)
	s.silent = true
	s.giveUp(now, ended{Reason: what + " for " + (now - since).Round(time.Millisecond).String()})
}

// endInput says goodbye; the far side's program should exit now.
func (s *session) endInput(now time.Duration) {
	s.ended = now
	if s.how.terminal {
		s.write([]byte(s.how.ending()))
		return
	}
	s.writing = true
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

// patience is how long the far side may take to end what the run's end cut short.
func (s *session) patience() time.Duration {
	if s.cutShort && !s.how.terminal {
		return min(s.e.bounds.stall, commandPatience) // it need not be reading its input
	}
	return s.e.bounds.stall
}

const commandPatience = 2 * time.Second

// abandon leaves a session that did nothing wrong.
func (s *session) abandon(why string) {
	if s.state == over || s.gaveUp > 0 {
		return
	}
	s.abandoned = true
	s.giveUp(s.now(), ended{Reason: why})
}

// buffers are shared by all sessions for what they type.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// type_ lets the script act.
func (s *session) type_(now time.Duration) {
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
	s.writing = true
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
	s.writing = true
	s.mu.Unlock()
	n, _ := s.link.Write(p)
	s.mu.Lock()
	s.writing = false
	s.sent += int64(n)
}
