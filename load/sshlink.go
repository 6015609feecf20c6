package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/ssh"
)

// sshOpener opens SSH sessions, with one client for each user.
type sshOpener struct{ clients []*ssh.Client }

func newSSHOpener(cfg Config, timeout time.Duration, agent bool) (*sshOpener, error) {
	o := &sshOpener{}
	through := slices.ContainsFunc(cfg.Plan.Streams, func(s scenarios.StreamPlan) bool { return s.Through == scenarios.ThroughService })
	for _, id := range cfg.Users {
		c, err := ssh.New(ssh.Options{Dial: cfg.Dial, Identity: id, ForwardAgent: agent, Timeout: timeout, KeepNames: through})
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", id.User, err)
		}
		o.clients = append(o.clients, c)
	}
	return o, nil
}

func (o *sshOpener) open(ctx context.Context, to route, what launch) (link, error) {
	if what.On != nil {
		return o.share(ctx, to, what)
	}
	start := ssh.Start{PTY: what.Terminal, Command: what.Command}
	s, err := o.clients[to.User].Open(ctx, to.Proxy.SSH, ssh.Target{Node: to.Node.UUID}, start)
	if err != nil {
		return nil, sshError(err)
	}
	return sshLink{s}, nil
}

func sshError(err error) *openError {
	var e *ssh.OpenError
	if !errors.As(err, &e) {
		return &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: err}
	}
	return &openError{Phase: e.Phase, Phases: e.Phases, Cut: e.Cut, Err: e}
}

// sshLink is an SSH session on a connection of its own.
type sshLink struct{ *ssh.Session }

func (l sshLink) Ping(ctx context.Context) error {
	_, err := l.Conn().Keepalive(ctx, ssh.HopNode)
	return err
}

func (l sshLink) Addresses() (local, remote string) {
	return l.Conn().LocalAddr().String(), l.Conn().RemoteAddr().String()
}

func (l sshLink) ProxyNames() []string { return l.Conn().ProxyNames() }

func (l sshLink) ServerSession() string { return l.ServerID() }

func (l sshLink) Ended(ctx context.Context) ended {
	e := l.End(ctx)
	if e.Hop == ssh.HopNode && !e.Exited {
		e = l.doubt(ctx, e)
	}
	out := ended{Exited: e.Exited, Status: e.Status, Signal: e.Signal, Cut: e.Cut, Reason: e.Message}
	if e.Exited {
		return out
	}
	if out.Reason == "" && e.Err != nil {
		out.Reason = e.Err.Error()
	}
	switch e.Hop {
	case ssh.HopProxy:
		out.Reason = "connection to the proxy: " + out.Reason
	case ssh.HopNode:
		if out.Cut == history.CutEOF {
			out.Cut = history.CutChannel // what ended is a channel: our connection stands
		}
		out.Reason = "behind the proxy: " + out.Reason
	}
	return out
}

// doubt asks the proxy whether it is still there. When thousands of sessions end at once, the end of a connection is
// seen later than that of the channel in it, and then it looks as if only the node had gone.
func (l sshLink) doubt(ctx context.Context, e ssh.End) ssh.End {
	if _, err := l.Conn().Keepalive(ctx, ssh.HopProxy); err != nil && !errors.Is(err, ssh.ErrSilent) {
		e.Hop, e.Cut, e.Err = ssh.HopProxy, history.CutEOF, err
		if errors.Is(err, syscall.ECONNRESET) {
			e.Cut = history.CutReset
		}
	}
	return e
}

func (l sshLink) Silent(ctx context.Context) string {
	if _, err := l.Conn().Keepalive(ctx, ssh.HopProxy); errors.Is(err, ssh.ErrSilent) {
		return "the proxy does not answer either"
	} else if err != nil {
		return "connection to the proxy: " + err.Error()
	}
	return "the proxy still answers, what lies behind it does not"
}
