package ssh

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// socket remembers how a connection was reset. The kernel tells a reset once, to whoever asks first: if that is a
// write, the read that follows sees an ordinary end, and the reset would be taken for a goodbye.
type socket struct {
	net.Conn
	reset atomic.Pointer[error]
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) {
		s.reset.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		if reset := s.reset.Load(); reset != nil {
			return n, *reset
		}
	}
	return n, err
}
