package gateway

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Server dials for clients.
type Server struct {
	// Idle ends Serve when there was no client for so long; 0: never. Who made the gateway may be dead.
	Idle time.Duration
	// Dial opens the connections; nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	clients int
	timer   *time.Timer
}

// Serve accepts clients until ctx ends, which is nil, or nobody came for Idle, which is nil, too. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	if s.Idle > 0 {
		s.timer = time.AfterFunc(s.Idle, cancel)
		defer s.timer.Stop()
	}
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.count(1)
		go func() {
			defer s.count(-1)
			s.client(ctx, conn)
		}()
	}
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients += n
	switch {
	case s.timer == nil:
	case s.clients > 0:
		s.timer.Stop()
	default:
		s.timer.Reset(s.Idle)
	}
}

// client serves one stream to its end, and ends all that came through it.
func (s *Server) client(ctx context.Context, conn net.Conn) {
	session, err := yamux.Server(conn, config())
	if err != nil {
		_ = conn.Close()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = session.Close() })
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go s.carry(ctx, stream)
	}
}

func (s *Server) carry(ctx context.Context, near *yamux.Stream) {
	defer near.Close()
	far, err := s.dial(ctx, near)
	if writeLine(near, AnswerTo(err)) != nil || err != nil {
		if far != nil {
			_ = far.Close()
		}
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { _ = far.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, near)
		if half, ok := far.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(near, far)
	_ = near.Close() // says so to the client, which may still be writing
	_ = far.Close()
	<-done
}

func (s *Server) dial(ctx context.Context, near *yamux.Stream) (net.Conn, error) {
	var want asked
	if err := readLine(near, &want); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if s.Dial != nil {
		return s.Dial(ctx, want.Network, want.Address)
	}
	return new(net.Dialer).DialContext(ctx, want.Network, want.Address)
}
