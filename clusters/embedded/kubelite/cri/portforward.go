package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
)

// dialPod connects from inside the pod, first over IPv4, then over IPv6. A socket
// stays in the namespace that it was made in.
func (r *Runtime) dialPod(ctx context.Context, id string, port int32) (conn net.Conn, err error) {
	r.mu.Lock()
	s := r.sandboxes[id]
	r.mu.Unlock()
	if s == nil {
		return nil, notFound("pod sandbox", id)
	}
	err = onThread(func() error {
		if err := s.enterNetwork(); err != nil {
			return err
		}
		var first error
		for _, host := range []string{"127.0.0.1", "::1"} {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
			if err == nil {
				conn = c
				return nil
			}
			if first == nil {
				first = err
			}
		}
		return first
	})
	return conn, err
}

func (s *sandbox) enterNetwork() error {
	s.op.Lock()
	defer s.op.Unlock()
	if s.ns == nil {
		return errors.New("the pod has been stopped")
	}
	return enter(s.ns.net)
}

// relay copies both ways. The client's end of input is passed on and the pod's
// answer still delivered; the pod's end ends it all.
func relay(ctx context.Context, conn net.Conn, stream io.ReadWriteCloser) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() {
		io.Copy(conn, stream)
		if c, ok := conn.(*net.TCPConn); ok {
			c.CloseWrite()
		}
	}()
	_, err := io.Copy(stream, conn)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
