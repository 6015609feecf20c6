package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/kube"
)

// watches opens watches of pods, each on a connection of its own.
type watches struct{ *kubeOpener }

// watchSpare is how much longer than its session a watch is asked to last: the server would else end it by itself.
const watchSpare = 10 * time.Minute

// maxWatch is how long a watch is asked to last where its session has no length.
const maxWatch = 24 * time.Hour

func (o watches) open(ctx context.Context, to route, what launch) (link, error) {
	lasting := cmp.Or(what.Length, maxWatch) + watchSpare
	path := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=1&timeoutSeconds=%d", podsPath(to), int(lasting.Seconds()))
	conn, resp, err := o.get(ctx, to, path)
	if err != nil {
		return nil, err
	}
	return &watchLink{apiLink: apiLink{conn: conn}, body: resp.Body}, nil
}

// podsPath is what watches and calls look at: what kubectl get pods does.
func podsPath(to route) string {
	return "/api/v1/namespaces/" + cmp.Or(to.Namespace, "default") + "/pods"
}

// get opens a connection with its first request.
func (o *kubeOpener) get(ctx context.Context, to route, path string) (*kube.Conn, *http.Response, error) {
	c, err := o.client(to)
	if err != nil {
		return nil, nil, &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: err}
	}
	conn, resp, err := c.Open(ctx, path)
	if err != nil {
		return nil, nil, kubeError(err)
	}
	return conn, resp, nil
}

// apiLink is what watches and calls have in common.
type apiLink struct {
	conn *kube.Conn
	left atomic.Bool // the session is over, and that is a clean end: no program behind it could say more
	shut atomic.Bool // closed for another reason
}

func (l *apiLink) Ping(ctx context.Context) error { return l.conn.Ping(ctx) }

// CloseWrite leaves: who watches or calls ends it by going away.
func (l *apiLink) CloseWrite() error {
	l.left.Store(true)
	return l.conn.Close()
}

func (l *apiLink) Close() error {
	l.shut.Store(true)
	return l.conn.Close()
}

func (l *apiLink) Phases() []history.PhaseTime { return l.conn.Phases() }
func (l *apiLink) ServerSession() string       { return "" }

func (l *apiLink) Addresses() (local, remote string) {
	return l.conn.LocalAddr().String(), l.conn.RemoteAddr().String()
}

func (l *apiLink) Silent(context.Context) string { return "the proxy does not even acknowledge" }

// how tells how it ended, after the error err.
func (l *apiLink) how(err error) ended {
	switch {
	case l.left.Load():
		return ended{Exited: true}
	case l.shut.Load():
		return ended{Cut: history.CutEOF, Reason: "closed by us"}
	case err == nil || errors.Is(err, io.EOF):
		return ended{Cut: history.CutEOF, Reason: "the connection was ended"}
	}
	return ended{Cut: kube.CutOf(err), Reason: err.Error()}
}

// watchLink is a watch.
type watchLink struct {
	apiLink
	body io.ReadCloser
	err  error
}

func (l *watchLink) Read(p []byte) (int, error) {
	n, err := l.body.Read(p)
	if err != nil {
		l.err = err
	}
	return n, err
}

func (l *watchLink) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (l *watchLink) Close() error {
	err := l.apiLink.Close()
	return errors.Join(err, l.body.Close())
}

func (l *watchLink) Ended(context.Context) ended {
	how := l.how(l.err)
	if l.err == io.EOF && !how.Exited { //nolint:errorlint // the answer's proper end, not one inside a connection's error
		how.Reason = "the server ended the watch"
	}
	return how
}

// apiCalls opens connections for one call after another.
type apiCalls struct{ *kubeOpener }

func (o apiCalls) open(ctx context.Context, to route, _ launch) (link, error) {
	path := podsPath(to) + "?limit=100"
	conn, resp, err := o.get(ctx, to, path)
	if err != nil {
		return nil, err
	}
	l := &callLink{apiLink: apiLink{conn: conn}, path: path, answers: make(chan string, 1), gone: make(chan struct{})}
	if _, err := l.drain(resp); err != nil { // the opening call
		conn.Close()
		return nil, &openError{Phase: history.PhaseStream, Phases: conn.Phases(), Cut: kube.CutOf(err), Err: err}
	}
	return l, nil
}

// callLink makes a call for each thing that is written to it, one at a time, and gives a line for each answer.
type callLink struct {
	apiLink
	path    string
	answers chan string
	gone    chan struct{}
	closed  atomic.Bool
	rest    string
	end     atomic.Pointer[ended]
	bytes   atomic.Int64 // of answers
}

// Write makes the call, and returns when it was answered.
func (l *callLink) Write(p []byte) (int, error) {
	resp, err := l.conn.Get(context.Background(), l.path) // ends with the connection
	if err == nil && resp.StatusCode/100 != 2 {
		l.over(ended{Cut: history.CutMessage, Reason: "a call was answered " + kube.Reason(resp)})
		resp.Body.Close()
		return 0, errRefusedCall
	}
	if err == nil {
		_, err = l.drain(resp)
	}
	if err != nil {
		l.over(l.how(err))
		return 0, err
	}
	select {
	case l.answers <- resp.Status + "\n":
	case <-l.gone:
	}
	return len(p), nil
}

var errRefusedCall = errors.New("the call was answered with an error")

// drain reads an answer to its end; one that is cut off is an error.
func (l *callLink) drain(resp *http.Response) (int64, error) {
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	l.bytes.Add(n)
	return n, err
}

func (l *callLink) over(e ended) {
	if l.closed.CompareAndSwap(false, true) {
		l.end.Store(&e)
		close(l.gone)
	}
}

func (l *callLink) Read(p []byte) (int, error) {
	if l.rest == "" {
		select {
		case l.rest = <-l.answers:
		case <-l.gone:
			return 0, io.EOF
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *callLink) CloseWrite() error {
	err := l.apiLink.CloseWrite()
	l.over(l.how(nil))
	return err
}

func (l *callLink) Close() error {
	err := l.apiLink.Close()
	l.over(l.how(nil))
	return err
}

func (l *callLink) Ended(context.Context) ended { return *l.end.Load() }

// Received is how many bytes of answers came.
func (l *callLink) Received() int64 { return l.bytes.Load() }

// errorEvent is how a watch's last event begins if the server ends it with an error.
const errorEvent = `{"type":"ERROR"`

// isError tells whether a watch event is the server's last word.
func isError(event []byte) bool {
	return strings.HasPrefix(string(event[:min(len(event), len(errorEvent))]), errorEvent)
}
