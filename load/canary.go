package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh"
)

// probeTimeout is how long one canary may take. It is longer than the interval, since a slow pod serves, if slowly;
// and short enough that a pod that hangs is known to within five seconds.
const probeTimeout = 3 * time.Second

// probeTries is through how many agents a canary goes before it blames the proxy pod.
const probeTries = 3

// canary goes through one proxy pod to a node: all of a session's way up to the shell. It starts no program there
// and leaves nothing in the audit log, where a thousand canaries would be a load of their own.
type canary func(ctx context.Context, through Proxy, node history.Agent) *openError

func (e *Engine) newCanary() (canary, error) {
	id := e.cfg.CanaryUser
	if id == nil {
		id = e.cfg.Users[0]
	}
	client, err := ssh.New(ssh.Options{Dial: e.cfg.Dial, Identity: id, ForwardAgent: e.forwardAgent(), Timeout: probeTimeout})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, through Proxy, node history.Agent) *openError {
		conn, err := client.Connect(ctx, through.SSH, ssh.Target{Node: node.UUID})
		if err != nil {
			return sshError(err)
		}
		defer conn.Close()
		_, err = conn.Keepalive(ctx, ssh.HopNode)
		if err != nil {
			return &openError{Phase: history.PhaseSSHNode, Cut: history.CutKeepalive, Err: err}
		}
		return nil
	}, nil
}

// probe sends a canary through each proxy pod at each interval, one at a time through each.
func (e *Engine) probe(ctx context.Context) {
	interval := e.cfg.Plan.Validity.Probe.Duration()
	if interval <= 0 {
		interval = time.Second
	}
	busy := &inFlight{pods: map[string]bool{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		all := e.cfg.Targets.Proxies()
		for i, p := range all {
			key := p.Pod.UID + p.SSH.Address
			if !busy.take(key) {
				continue
			}
			wg.Go(func() {
				defer busy.free(key)
				// Spread over the interval, so that they do not disturb each other.
				if sleep(ctx, time.Duration(i)*interval/time.Duration(len(all))/2) {
					e.probeOnce(ctx, p)
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// probeOnce writes down one canary.
func (e *Engine) probeOnce(ctx context.Context, p Proxy) {
	start := e.history.Now()
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := e.through(probeCtx, p)
	if ctx.Err() != nil {
		return // it was us
	}
	out := history.Probe{Pod: p.Pod, Took: e.history.Now() - start}
	outcome := history.OK
	if err != nil {
		out.Failed, out.Error, outcome = err.Phase, err.Error(), history.Failed
	}
	e.history.Record(history.Event{Subject: p.Pod.Name, Outcome: outcome, Data: out})
}

// through tries agents in a random order, because a node that is gone says nothing about the proxy.
func (e *Engine) through(ctx context.Context, p Proxy) *openError {
	agents := e.cfg.Targets.Agents()
	if len(agents) == 0 {
		return &openError{Phase: history.PhaseRoute, Cut: history.CutUnrouted, Err: errNoAgent}
	}
	first := rand.IntN(len(agents)) //nolint:gosec // which agent a canary takes is no choice of the plan
	var failed *openError
	for i := range min(probeTries, len(agents)) {
		err := e.canary(ctx, p, agents[(first+i)%len(agents)])
		if err == nil {
			return nil
		}
		if failed = err; failed.Phase != history.PhaseRoute && failed.Phase != history.PhaseSSHNode || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// inFlight are the pods that a canary is going through.
type inFlight struct {
	mu   sync.Mutex
	pods map[string]bool
}

func (f *inFlight) take(pod string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods[pod] {
		return false
	}
	f.pods[pod] = true
	return true
}

func (f *inFlight) free(pod string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, pod)
}

// sleep waits; false means that ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
