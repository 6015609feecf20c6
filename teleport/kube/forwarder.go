package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// forwarder lets a transport that takes no dialer use one: it listens on loopback and passes each connection on.
// The kernel copies (splice); a reset on one side is a reset on the other.
type forwarder struct {
	listener net.Listener
	dial     DialFunc
	address  string

	mu    sync.Mutex
	conns []net.Conn
	peer  net.Addr
}

func newForwarder(dial DialFunc, address string) (*forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: listener, dial: dial, address: address}
	go f.serve()
	return f, nil
}

func (f *forwarder) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.pass(near)
	}
}

func (f *forwarder) pass(near net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	far, err := f.dial(ctx, "tcp", f.address)
	if err != nil {
		abort(near)
		return
	}
	f.mu.Lock()
	f.conns = append(f.conns, near, far)
	f.peer = far.RemoteAddr()
	f.mu.Unlock()
	go pipe(far, near)
	pipe(near, far)
}

// remote is the far end of the last connection.
func (f *forwarder) remote() net.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peer
}

func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); errors.Is(err, syscall.ECONNRESET) {
		abort(to)
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	to.Close()
}

func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// Close ends the forwarder and its connections.
func (f *forwarder) Close() {
	f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}
