package ssh

import (
	"context"
	"errors"
	"io"
	"time"

	"shakedown.dev/shakedown/history"
)

// End is how a session ended, and the evidence.
type End struct {
	Exited  bool   // the remote side said how its program ended
	Status  int    // its exit status; 128 if it was a signal
	Signal  string // without SIG
	Message string // words of the server, if it had any
	// Cut is how it looked if the remote side said nothing; empty if it exited.
	Cut history.Cut
	// Hop is the connection that was cut: HopProxy if ours to the proxy is gone, HopNode if that one still
	// answers and what lies behind it is gone.
	Hop  Hop
	Ours bool  // we closed it
	Err  error // of the transport that was cut
}

// settle is how long End waits for the transports to notice what ended the session: they tell within
// microseconds of each other, but from different goroutines.
const settle = 250 * time.Millisecond

// End tells how the session ended. Call it after Read returned an error; it waits until the remote side has
// closed the session, at most until ctx ends. A session whose remote side closed its output but holds on
// to the channel, without an exit status, is CutChannel.
func (s *Session) End(ctx context.Context) End {
	for s.reqs != nil {
		select {
		case req, ok := <-s.reqs:
			if !ok {
				s.reqs = nil
				break
			}
			s.take(req)
		case <-ctx.Done():
			return s.verdict(ctx)
		}
	}
	return s.verdict(ctx)
}

func (s *Session) verdict(ctx context.Context) End {
	c := s.conn
	end := End{Ours: c.ours.Load()}
	if e := s.status.Load(); e != nil {
		end.Exited, end.Status, end.Signal, end.Message = true, e.status, e.signal, e.words
		return end
	}
	nodeErr, nodeGone := ended(c.node, settle)
	if !nodeGone {
		end.Cut, end.Hop, end.Err = history.CutChannel, HopNode, errors.New("the session's channel was closed without an exit status")
		return end
	}
	if c.proxy == nil {
		end.Hop, end.Err, end.Cut = HopNode, nodeErr, cutOf(nodeErr)
		return end
	}
	if proxyErr, gone := ended(c.proxy, settle); gone {
		end.Hop, end.Err, end.Cut = HopProxy, proxyErr, cutOf(proxyErr)
		return end
	}
	return s.behindProxy(ctx, end, nodeErr)
}

// behindProxy is the case that the node's connection ended while the proxy's seems to stand: asked, does it?
func (s *Session) behindProxy(ctx context.Context, end End, nodeErr error) End {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	end.Hop, end.Err, end.Cut = HopNode, nodeErr, cutOf(nodeErr)
	switch _, err := s.conn.Keepalive(ctx, HopProxy); {
	case errors.Is(err, ErrSilent):
		end.Hop, end.Cut, end.Err = HopProxy, history.CutKeepalive, err
	case err != nil:
		end.Hop, end.Err, end.Cut = HopProxy, err, cutOf(err)
	default:
		end.Message = lastWords(s.conn.via, shortWait)
	}
	return end
}

// ended waits up to limit for a connection's end and gives its error.
func ended(conn interface{ Wait() error }, limit time.Duration) (error, bool) {
	got := make(chan error, 1)
	go func() { got <- conn.Wait() }()
	select {
	case err := <-got:
		if err == nil {
			err = io.EOF
		}
		return err, true
	case <-time.After(limit):
		return nil, false
	}
}
