package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/authclient"
)

// How the real program copes with a sync recording that does not get through.
const (
	writeTimeout   = 5 * time.Second  // an event waits so long for a blocked stream
	loseFor        = 30 * time.Second // then events are dropped for so long
	resumeAttempts = 10
	resumeStep     = time.Second
	resumeMax      = 30 * time.Second
)

// syncSink streams a recording to the auth and resumes a broken stream, sending again what was not acknowledged.
type syncSink struct {
	host    *Host
	session string
	fail    func(error)
	queue   chan events.AuditEvent

	ctx     context.Context // ends when the stream is given up or completed
	cancel  context.CancelFunc
	finish  chan context.Context
	done    sync.WaitGroup
	err     error // of the finish, after done
	lost    atomic.Int64
	blocked time.Time // until when events are dropped; used by write only

	stream  authclient.Stream
	unacked []events.AuditEvent
}

func (h *Host) openSync(ctx context.Context, session string, fail func(error)) (*syncSink, error) {
	stream, err := h.cfg.Auth.CreateStream(context.WithoutCancel(ctx), session)
	if err != nil {
		return nil, fmt.Errorf("open recording stream: %w", err)
	}
	s := &syncSink{host: h, session: session, fail: fail, stream: stream,
		queue: make(chan events.AuditEvent), finish: make(chan context.Context, 1)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done.Go(s.run)
	return s, nil
}

// write blocks while the stream is blocked, at most writeTimeout; then events are lost for a while.
func (s *syncSink) write(event events.AuditEvent) error {
	if time.Now().Before(s.blocked) {
		s.lost.Add(1)
		return nil
	}
	timer := time.NewTimer(writeTimeout)
	defer timer.Stop()
	select {
	case s.queue <- event:
		return nil
	case <-s.ctx.Done():
		return errors.New("audit writer is closed")
	case <-timer.C:
		s.blocked = time.Now().Add(loseFor)
		s.lost.Add(1)
		s.host.cfg.Log.Error("audit write timed out, losing events", "session", s.session, "after", writeTimeout, "for", loseFor)
		return nil
	}
}

func (s *syncSink) run() {
	defer s.cancel()
	for {
		var err error
		select {
		case event := <-s.queue:
			s.unacked = append(s.unacked, event)
			err = s.stream.Send(s.ctx, event)
			s.forget()
		case <-s.stream.Done():
			err = errors.Join(errors.New("stream was closed by the server"), s.stream.Err())
		case ctx := <-s.finish:
			s.err = s.stream.Complete(ctx)
			return
		}
		if err == nil {
			continue
		}
		if err := s.recover(); err != nil {
			s.err = err
			s.cancel() // writers must not wait for us while fail waits for them
			s.fail(err)
			return
		}
	}
}

// forget drops events the auth has stored.
func (s *syncSink) forget() {
	acked := s.stream.Acked()
	n := 0
	for n < len(s.unacked) && s.unacked[n].GetIndex() <= acked {
		n++
	}
	if n > 0 {
		s.unacked = append([]events.AuditEvent(nil), s.unacked[n:]...)
	}
}

// recover resumes the stream: ten attempts, one second further apart each.
func (s *syncSink) recover() error {
	upload := s.stream.UploadID()
	s.stream.Close()
	var last error
	for i := range resumeAttempts {
		stream, err := s.host.cfg.Auth.ResumeStream(s.ctx, s.session, upload)
		if err == nil {
			if err = s.resend(stream); err == nil {
				return nil
			}
		}
		last = err
		time.Sleep(min(time.Duration(i+1)*resumeStep, resumeMax))
	}
	return fmt.Errorf("audit stream resume attempts exhausted, last error: %w", last)
}

func (s *syncSink) resend(stream authclient.Stream) error {
	for _, event := range s.unacked {
		if err := stream.Send(s.ctx, event); err != nil {
			stream.Close()
			return err
		}
	}
	s.stream = stream
	return nil
}

func (s *syncSink) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loseFor)
	defer cancel()
	s.finish <- ctx
	s.done.Wait()
	if n := s.lost.Load(); n > 0 {
		s.host.cfg.Log.Error("session has lost audit events because of disk or network issues", "session", s.session, "events", n)
	}
	return s.err
}
