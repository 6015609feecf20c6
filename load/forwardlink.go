package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/kube"
)

// portForwards opens connections to a pod's port that are carried through the proxy.
type portForwards struct{ *kubeOpener }

// question asks whatever speaks HTTP for any answer; the connection stays open after it.
const question = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nUser-Agent: shakedown\r\n\r\n"

var errNoPort = errors.New("nothing is known to listen in the pod, so nothing can be forwarded to it")

func (o portForwards) open(ctx context.Context, to route, _ launch) (link, error) {
	if to.Pod.Port == 0 {
		return nil, &openError{Phase: history.PhaseStream, Cut: history.CutUnrouted, Err: errNoPort}
	}
	c, err := o.client(to)
	if err != nil {
		return nil, &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: err}
	}
	f, err := c.Forward(ctx, to.Pod.Target, to.Pod.Port)
	if err != nil {
		return nil, kubeError(err)
	}
	l := &forwardLink{Forward: f, heard: make(chan struct{}, 1)}
	// Only an answer shows that it leads somewhere.
	if err := l.firstAnswer(ctx); err != nil {
		f.Close()
		return nil, &openError{Phase: history.PhaseStream, Phases: f.Phases(), Cut: history.CutEOF, Err: err}
	}
	return l, nil
}

// forwardLink is a forwarded connection on which a request is made now and then, as a sign of life.
type forwardLink struct {
	*kube.Forward
	heard chan struct{} // something came
	left  atomic.Bool   // the session is over, and that is a clean end
}

func (l *forwardLink) firstAnswer(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.Forward.Close() })
	defer stop()
	if _, err := io.WriteString(l.Forward, question); err != nil {
		return err
	}
	if _, err := l.Forward.Read(make([]byte, 512)); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the pod did not answer", ctx.Err())
		}
		how, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		return fmt.Errorf("the pod did not answer: %w; %s", err, l.End(how).Message)
	}
	return nil
}

func (l *forwardLink) Read(p []byte) (int, error) {
	n, err := l.Forward.Read(p)
	if n > 0 {
		select {
		case l.heard <- struct{}{}:
		default:
		}
	}
	return n, err
}

// Ping asks, and waits for any answer.
func (l *forwardLink) Ping(ctx context.Context) error {
	select {
	case <-l.heard: // of before
	default:
	}
	if _, err := io.WriteString(l.Forward, question); err != nil {
		return err
	}
	select {
	case <-l.heard:
		return nil
	case <-ctx.Done():
		return kube.ErrSilent
	}
}

// CloseWrite leaves: who forwards a port ends it by going away.
func (l *forwardLink) CloseWrite() error {
	l.left.Store(true)
	return l.Forward.Close()
}

func (l *forwardLink) Ended(ctx context.Context) ended {
	if l.left.Load() {
		return ended{Exited: true}
	}
	e := l.End(ctx)
	out := ended{Cut: e.Cut, Reason: e.Message}
	if out.Reason == "" && e.Err != nil {
		out.Reason = e.Err.Error()
	}
	return out
}

func (l *forwardLink) Addresses() (local, remote string) {
	if at := l.RemoteAddr(); at != nil {
		remote = at.String()
	}
	return l.LocalAddr().String(), remote
}

func (l *forwardLink) ServerSession() string { return "" }

func (l *forwardLink) Silent(context.Context) string {
	return "nothing came back through the forwarded port"
}
