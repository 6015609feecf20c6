package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"shakedown.dev/shakedown/history"
)

// Conn is one connection to the API through the proxy, HTTP/1.1, for one request after another: what is held is the
// connection, so that its end is known as its own. A request whose answer goes on (a watch) is its last.
type Conn struct {
	client *Client
	http   *http.Client
	raw    net.Conn
	phases []history.PhaseTime
}

// once is a connection that can be dialled once. It remembers what became of it, because Go's client makes a request
// anew that failed on a connection used before.
type once struct {
	net.Conn
	dialled atomic.Bool
	err     atomic.Pointer[error] // of the first read that failed
}

func (o *once) dial(context.Context, string, string) (net.Conn, error) {
	if !o.dialled.Swap(true) {
		return o, nil
	}
	if err := o.err.Load(); err != nil {
		return nil, *err
	}
	return nil, errEnded
}

func (o *once) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if err != nil {
		o.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// errEnded is a request on a connection that is over.
var errEnded = errors.New("the connection has ended")

// Open connects and makes the first request, a GET of path ("/api/v1/…?…"). Its answer is 2xx, else it is an error;
// every error is an *OpenError. ctx bounds the opening and not the body, which the caller closes.
func (c *Client) Open(ctx context.Context, path string) (*Conn, *http.Response, error) {
	o := &opening{client: c, clock: time.Now(), phase: history.PhaseConnect}
	secure, err := o.dial(ctx, "tcp", "")
	if err != nil {
		o.took()
		return nil, nil, o.failed(err, nil)
	}
	o.phase = history.PhaseStream
	conn := &Conn{client: c, raw: o.raw}
	only := &once{Conn: secure}
	conn.http = &http.Client{Transport: &http.Transport{
		DialTLSContext: only.dial, MaxConnsPerHost: 1, ReadBufferSize: 2048, WriteBufferSize: 2048, DisableCompression: true,
	}}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	resp, err := conn.Get(life, path)
	o.took()
	if !stop() && err == nil {
		resp.Body.Close()
		err = ctx.Err()
	}
	if err == nil && resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		err = errors.New(resp.Status)
	}
	if err != nil {
		cancel()
		return nil, nil, o.failed(err, resp)
	}
	resp.Body = &body{resp.Body, cancel}
	conn.phases = o.phases
	return conn, resp, nil
}

// body frees its request's context.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// Get makes a request. The error is of the connection, not of the answer's status.
func (c *Conn) Get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.client.config.Host+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.client.config.UserAgent)
	return c.http.Do(req)
}

// Phases are the phases of opening with their times.
func (c *Conn) Phases() []history.PhaseTime { return c.phases }

// LocalAddr and RemoteAddr are the ends of the connection to the proxy.
func (c *Conn) LocalAddr() net.Addr  { return c.raw.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Ping waits for any sign of life of the far side's kernel: HTTP/1.1 has no question to ask while an answer is under
// way, so TCP's own keep-alive asks. It says nothing about what lies behind the proxy, no more than a ping of HTTP/2
// or WebSocket would. errors.ErrUnsupported where the system does not tell.
func (c *Conn) Ping(ctx context.Context) error { return heardFrom(ctx, c.raw) }

// Close ends the connection at once.
func (c *Conn) Close() error { return c.raw.Close() }

// Reason takes the words out of an answer that was a no; it reads the body.
func Reason(resp *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return resp.Status + " " + reason(text)
}

// CutOf names how an error of a connection looks from here.
func CutOf(err error) history.Cut {
	if errors.Is(err, errEnded) {
		return history.CutEOF
	}
	return cutOf(err)
}
