package sshtest

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/authclient"
)

// Stream is one synchronous recording.
type Stream struct {
	auth    *Auth
	session string
	upload  string

	mu   sync.Mutex
	list []events.AuditEvent
	err  error
	done chan struct{}
}

func (c *client) CreateStream(_ context.Context, session string) (authclient.Stream, error) {
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	s := &Stream{auth: c.auth, session: session, upload: uuid.NewString(), done: make(chan struct{})}
	c.auth.streams[s.upload] = s
	return s, nil
}

func (c *client) ResumeStream(_ context.Context, session, upload string) (authclient.Stream, error) {
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, ok := c.auth.streams[upload]
	if !ok {
		return nil, status.Error(codes.NotFound, "upload is not found")
	}
	s := &Stream{auth: c.auth, session: session, upload: upload, done: make(chan struct{}), list: old.list}
	c.auth.streams[upload] = s
	return s, nil
}

// Break ends every open stream as a dying auth does; what was sent since acked events is kept only up to keep events.
func (a *Auth) Break(keep int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.streams {
		s.mu.Lock()
		if s.err == nil {
			s.err = errors.New("auth went away")
			s.list = s.list[:min(keep, len(s.list))]
			close(s.done)
		}
		s.mu.Unlock()
	}
}

func (s *Stream) UploadID() string { return s.upload }

func (s *Stream) Send(_ context.Context, e events.AuditEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.list = append(s.list, e)
	if k := e.GetType(); k != "print" && k != "resize" {
		s.auth.mu.Lock()
		s.auth.events = append(s.auth.events, e)
		s.auth.mu.Unlock()
	}
	return nil
}

func (s *Stream) Acked() int64 {
	// Nothing is stored for good before the recording is complete.
	return -1
}

func (s *Stream) Complete(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.err = errors.New("stream is complete")
	close(s.done)
	s.auth.mu.Lock()
	defer s.auth.mu.Unlock()
	s.auth.store(s.session, s.list)
	return nil
}

func (s *Stream) Close() error          { return nil }
func (s *Stream) Done() <-chan struct{} { return s.done }

func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
