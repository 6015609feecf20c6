package sshutil

import (
	"context"
	"net"
	"sync"
)

// Handoff is a listener for an HTTP server whose connections were accepted elsewhere.
type Handoff struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewHandoff gives a listener.
func NewHandoff() *Handoff {
	return &Handoff{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve hands a connection on and returns when it was closed; the end of ctx closes it, even when it was hijacked.
func (h *Handoff) Serve(ctx context.Context, conn net.Conn) {
	done := make(chan struct{})
	c := &HandedConn{Conn: conn, closed: sync.OnceFunc(func() { close(done) })}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	select {
	case h.conns <- c:
		<-done
	case <-h.closed:
		conn.Close()
	case <-ctx.Done():
	}
}

// Accept gives the next connection.
func (h *Handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *Handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is of no meaning here.
func (*Handoff) Addr() net.Addr { return &net.TCPAddr{} }

// HandedConn is a connection that was handed on.
type HandedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection and lets Serve return.
func (c *HandedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
