package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/probe"
	"shakedown.dev/shakedown/teleport/ssh"
)

// proxiesBack bounds the wait for the stopped proxy's replacement.
const proxiesBack = 2 * time.Minute

// stopProbe measures what a stopped proxy does to its sessions, beside the agents' installation, since both take
// some seconds in which little happens.
type stopProbe struct {
	t      *trial
	done   chan struct{}
	result history.ProxyStop
}

// startProbe begins, if the plan wants it; nil if not. An agent of the control arm must be dialable.
func (t *trial) startProbe(ctx context.Context) *stopProbe {
	if !t.plan.ProbesStop() || len(t.system.control) == 0 {
		return nil
	}
	p := &stopProbe{t: t, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.result = p.measure(ctx)
	}()
	return p
}

func (p *stopProbe) measure(ctx context.Context) history.ProxyStop {
	s, plan := p.t.system, p.t.plan.Teleport
	proxies, err := pods.List(ctx, s.client, plan.Namespace, plan.Release, pods.Proxy)
	if err == nil && len(proxies) == 0 {
		err = errors.New("there is no proxy")
	}
	if err != nil {
		return history.ProxyStop{Error: err.Error()}
	}
	out := history.ProxyStop{Pod: proxies[0].Ref()}
	client, err := ssh.New(ssh.Options{Dial: s.cluster.DialContext, Identity: s.observer(), ForwardAgent: s.recordsAtProxy(), Timeout: 10 * time.Second})
	if err != nil {
		out.Error = err.Error()
		return out
	}
	got, err := probe.StopProxy(ctx, probe.Options{Kube: s.client, SSH: client, Proxy: proxies[0], Node: s.control[0].UUID})
	if err != nil {
		out.Error = err.Error()
	}
	out.Grace, out.Unready, out.Dropped, out.Ended, out.Gone = got.Grace, got.Unready, got.Dropped, got.Ended, got.Gone
	out.Cut, out.Message, out.Exit, out.Signal, out.Survived = got.Cut, got.Message, got.ExitCode, got.Signal, got.Survived
	return out
}

// finish waits until the measuring is done and the proxies are whole again, and writes down what was seen. That it
// could not be measured is written down too, and no reason to stop: nothing is concluded from it.
func (p *stopProbe) finish(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.t.step("Seeing what a stopped proxy does", func() error {
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.t.state.Record(history.Event{Subject: p.result.Pod.Name, Data: p.result})
		p.t.env.ProxyStop = &p.result
		ctx, cancel := context.WithTimeout(ctx, proxiesBack)
		defer cancel()
		if err := p.t.state.Await(ctx, func() error { return p.t.state.Settled(pods.Proxy) }); err != nil {
			return fmt.Errorf("the proxies did not come back after one was stopped: %w", err)
		}
		return nil
	})
}
