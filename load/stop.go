package load

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

// StopLoad ends arrivals and all sessions, and returns when every session is in the ledger: those still open are
// unfinished, but are ended as they should, so that their recordings are whole. Canaries go on. When ctx ends,
// what has not ended is left.
func (e *Engine) StopLoad(ctx context.Context) {
	e.halt()
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.cutAll(ctx)
	done := make(chan struct{})
	go func() { e.sessions.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		e.eachSession((*session).leave)
		e.end() // openings too
		<-done
	}
}

// Stop is StopLoad, then ends all else, and returns when nothing of the engine runs any more.
func (e *Engine) Stop(ctx context.Context) Stats {
	e.StopLoad(ctx)
	e.end()
	e.workers.Wait()
	debug.SetGCPercent(e.gc)
	if e.rank != nil {
		e.rank()
	}
	return e.Stats()
}

func (e *Engine) eachSession(f func(*session)) {
	e.mu.Lock()
	all := make([]*session, 0, len(e.live))
	for s := range e.live {
		all = append(all, s)
	}
	e.mu.Unlock()
	for _, s := range all {
		f(s)
	}
}

// How many sessions are ended at once when the run ends, and how long one that does not answer takes the place of
// others. Thousands that end in one moment would be a storm of our own making, and those it delays not stalled.
const (
	endingAtOnce = 64
	endingPlace  = time.Second
)

// cutAll ends all sessions, so many at once.
func (e *Engine) cutAll(ctx context.Context) {
	places := make(chan struct{}, endingAtOnce)
	e.eachSession(func(s *session) {
		select {
		case places <- struct{}{}:
			s.cut(sync.OnceFunc(func() { <-places }))
		case <-ctx.Done():
			s.cut(func() {})
		}
	})
}

// cut ends a session's script because the run ends; ended is called when it has ended, or takes too long.
func (s *session) cut(ended func()) {
	time.AfterFunc(endingPlace, ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == over {
		ended()
		return
	}
	s.atEnd = ended
	// A script that was over already ends as it would have.
	s.cutShort = s.cutShort || s.ended == 0
	if s.state == opened && s.gaveUp == 0 {
		s.plan()
	}
}

const tooLate = "the run ended before it did"

// leave ends a session that did not end in time.
func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left = true; s.link != nil {
		s.abandon(tooLate)
	}
}
