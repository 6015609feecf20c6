package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Client opens connections through a Server. Its methods may be called from many goroutines.
type Client struct {
	// Connect brings a stream to the server.
	Connect func(context.Context) (net.Conn, error)
	// Lost is told of each stream that had worked and broke, as soon as that is known. Nil: nobody is.
	Lost func(error)

	mu      sync.Mutex
	session *yamux.Session
	closed  bool
}

// Ping is how long the server takes to answer, over a stream that is made if there is none.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	s, err := c.stream(ctx)
	if err != nil {
		return 0, err
	}
	return s.Ping()
}

// DialContext connects from where the server is. Errors carry the errno that the server's kernel gave.
func (c *Client) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	s, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := s.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	out := &conn{Stream: raw, session: s, to: inside{network, address}}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	var a Answer
	if err = writeLine(out, asked{network, address}); err == nil {
		err = readLine(out, &a)
	}
	if !stop() { // ctx has ended, and perhaps with it this exchange
		return nil, errors.Join(context.Cause(ctx), raw.Close())
	}
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return out, nil
}

// stream is the one that there is, or a new one.
func (c *Client) stream(ctx context.Context) (*yamux.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.session != nil && !c.session.IsClosed() {
		return c.session, nil
	}
	raw, err := c.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the gateway: %w", err)
	}
	s, err := yamux.Client(raw, config())
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	if _, err := s.Ping(); err != nil { // a port-forward is there before anybody listens at its end
		return nil, errors.Join(fmt.Errorf("the gateway does not answer: %w", err), s.Close())
	}
	c.session = s
	go c.watch(s)
	return s, nil
}

// watch tells the end of a stream, unless Close brought it.
func (c *Client) watch(s *yamux.Session) {
	<-s.CloseChan()
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if !closed && c.Lost != nil {
		c.Lost(ErrLost)
	}
}

// Close ends all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.session == nil {
		return nil
	}
	return c.session.Close()
}

// conn is one connection, whose end tells whose end it was.
type conn struct {
	*yamux.Stream
	session *yamux.Session
	to      inside
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	return n, c.explain("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Stream.Write(p)
	return n, c.explain("write", err)
}

// explain puts the loss of the stream in the place of the end that it brought about.
func (c *conn) explain(op string, err error) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrStreamClosed) || errors.Is(err, yamux.ErrSessionShutdown) || errors.Is(err, yamux.ErrConnectionReset)
	if !ended || !c.session.IsClosed() {
		return err
	}
	return &net.OpError{Op: op, Net: c.to.network, Addr: c.to, Err: ErrLost}
}

func (c *conn) RemoteAddr() net.Addr { return c.to }
func (c *conn) LocalAddr() net.Addr  { return inside{c.to.network, "gateway"} }

// inside is an address of the network behind the gateway.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }
