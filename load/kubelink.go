package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/kube"
	"shakedown.dev/shakedown/teleport/ssh"
)

// kubeOpener opens exec streams, with one client for each user and proxy.
type kubeOpener struct {
	users []*identity.Identity
	dial  ssh.DialFunc

	mu      sync.Mutex
	clients map[string]*kube.Client
}

func (o *kubeOpener) open(ctx context.Context, to route, what launch) (link, error) {
	c, err := o.client(to)
	if err != nil {
		return nil, &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: err}
	}
	command := []string{"sh"}
	if what.Command != "" {
		command = []string{"sh", "-c", what.Command}
	}
	s, err := c.Exec(ctx, to.Pod.Target, kube.Start{Command: command, TTY: what.Terminal, SPDY: what.SPDY})
	if err != nil {
		return nil, kubeError(err)
	}
	return kubeLink{s}, nil
}

// client keeps clients: making one reads certificates anew.
func (o *kubeOpener) client(to route) (*kube.Client, error) {
	address := to.Proxy.Kube
	if address == "" {
		address = to.Proxy.SSH.Address
	}
	key := fmt.Sprint(to.User, " ", address)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.clients[key]; c != nil {
		return c, nil
	}
	c, err := kube.New(kube.Options{
		Dial: kube.DialFunc(o.dial), Identity: o.users[to.User], Address: address, Separate: to.Proxy.KubeSeparate,
	})
	if err != nil {
		return nil, err
	}
	if o.clients == nil {
		o.clients = map[string]*kube.Client{}
	}
	o.clients[key] = c
	return c, nil
}

func kubeError(err error) *openError {
	var e *kube.OpenError
	if !errors.As(err, &e) {
		return &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: err}
	}
	return &openError{Phase: e.Phase, Phases: e.Phases, Cut: e.Cut, Err: e}
}

// kubeLink is an exec stream.
type kubeLink struct{ *kube.Stream }

func (l kubeLink) Ping(ctx context.Context) error {
	_, err := l.Stream.Ping(ctx)
	return err
}

// CloseWrite cannot be done in version 4 of the protocol: a terminal's end of input is typed instead.
func (l kubeLink) CloseWrite() error { return errors.ErrUnsupported }

func (l kubeLink) Addresses() (local, remote string) {
	return l.LocalAddr().String(), l.RemoteAddr().String()
}

func (l kubeLink) ServerSession() string { return "" }

func (l kubeLink) Ended(context.Context) ended {
	e := l.End()
	out := ended{Exited: e.Exited, Status: e.Status, Cut: e.Cut, Reason: e.Message}
	if !e.Exited && out.Reason == "" && e.Err != nil {
		out.Reason = e.Err.Error()
	}
	return out
}

func (l kubeLink) Silent(context.Context) string {
	return "neither the proxy nor the pod sent anything"
}
