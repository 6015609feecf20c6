package load

import (
	"context"
	"errors"
	"time"

	"shakedown.dev/shakedown/history"
)

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

// alive asks for a sign of life when it is time, and gives the session up when none came.
func (s *session) alive(now time.Duration, certain bool) bool {
	k := s.drawn.Session.Keepalive.Duration()
	switch {
	case certain && s.asked > 0 && now >= s.asked+k && now >= s.heard+2*k:
		s.silence(s.heard, now)
		s.gaveUp = now // so that nothing else is begun meanwhile
		go s.lost()
		return false
	case s.asked == 0 && !s.unasked && now >= s.heard+k:
		s.asked = now
		s.e.work(s.ping)
	}
	return true
}

// ping waits for one answer to a keep-alive.
func (s *session) ping() {
	err := s.link.Ping(s.e.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, errors.ErrUnsupported) {
		s.unasked, s.asked = true, 0 // only what it says by itself will tell
		s.plan()
		return
	}
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

// stalled gives up a session that stayed open and owes an answer for too long.
func (s *session) stalled(now, since time.Duration, what string) {
	s.silence(since, now)
	s.silent = true
	s.giveUp(now, ended{Reason: what + " for " + (now - since).Round(time.Millisecond).String()})
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
