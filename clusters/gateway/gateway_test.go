package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rig is a server, a client of it, and the streams between them.
type rig struct {
	client  *Client
	mu      sync.Mutex
	streams []net.Conn
	lost    chan error
}

func newRig(t *testing.T, s *Server) *rig {
	t.Helper()
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	r := &rig{lost: make(chan error, 8)}
	r.client = &Client{Lost: func(err error) { r.lost <- err }, Connect: func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		r.mu.Lock()
		defer r.mu.Unlock()
		r.streams = append(r.streams, c)
		return c, err
	}}
	t.Cleanup(func() {
		if err := r.client.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// echoes sends back what it gets until the other side has no more to say, and then a last word.
func echoes(t *testing.T) string {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
				_, _ = io.WriteString(c, "bye")
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, r *rig, address string) net.Conn {
	t.Helper()
	c, err := r.client.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func talk(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(c, back); err != nil || string(back) != "hello" {
		t.Fatalf("%q, %v", back, err)
	}
}

func TestConnectionsShareOneStream(t *testing.T) {
	r, to := newRig(t, &Server{}), echoes(t)
	first := dial(t, r, to)
	var all sync.WaitGroup
	for range 50 {
		c := dial(t, r, to)
		all.Go(func() { talk(t, c) })
	}
	all.Wait()
	talk(t, first)
	if len(r.streams) != 1 {
		t.Errorf("%d streams", len(r.streams))
	}
	if got := first.RemoteAddr().String(); got != to {
		t.Errorf("remote address %s, want %s", got, to)
	}
	// Half closed: what the other side still has to say comes.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(first); string(rest) != "bye" || err != nil {
		t.Errorf("after its own end: %q, %v", rest, err)
	}
}

func TestRefusalsKeepTheirErrno(t *testing.T) {
	r := newRig(t, &Server{})
	l := listen(t)
	l.Close()
	if _, err := r.client.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want ECONNREFUSED", err)
	}
}

func TestTheOthersEndIsNoLoss(t *testing.T) {
	r := newRig(t, &Server{})
	l := listen(t)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	c := dial(t, r, l.Addr().String())
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want EOF", err)
	}
}

func TestLossIsTold(t *testing.T) {
	r, to := newRig(t, &Server{}), echoes(t)
	c := dial(t, r, to)
	talk(t, c)
	r.streams[0].Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
		t.Errorf("read: %v, want ErrLost", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, ErrLost) {
		t.Errorf("write: %v, want ErrLost", err)
	}
	talk(t, dial(t, r, to)) // over a new stream
	if len(r.streams) != 2 {
		t.Errorf("%d streams, want a second one", len(r.streams))
	}
	if err := <-r.lost; !errors.Is(err, ErrLost) || len(r.lost) > 0 {
		t.Errorf("told %v and %d more, want one loss", err, len(r.lost))
	}
	if err := r.client.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.lost) > 0 {
		t.Error("its own end counts as a loss")
	}
}

func TestWhatNeverWorkedIsNotLost(t *testing.T) {
	c := &Client{
		Connect: func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			return near, far.Close()
		},
		Lost: func(error) { t.Error("lost") },
	}
	if _, err := c.Ping(t.Context()); err == nil {
		t.Error("it answers, and nobody is there")
	}
	if c.session != nil {
		t.Error("a stream that never worked is kept")
	}
}

func TestGivingUpAndDeadlines(t *testing.T) {
	r := newRig(t, &Server{Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
		if address == "never:1" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.client.DialContext(ctx, "tcp", "never:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the caller gave up", err)
	}
	c := dial(t, r, echoes(t))
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	talk(t, c)
}

func TestAnIdleServerEnds(t *testing.T) {
	ended := make(chan error, 1)
	l := listen(t)
	s := &Server{Idle: 20 * time.Millisecond}
	go func() { ended <- s.Serve(t.Context(), l) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits for clients for ever")
	}
}
