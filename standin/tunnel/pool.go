package tunnel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// PoolConfig is what an agent pool needs.
type PoolConfig struct {
	UUID      string
	Version   string // told to proxies that ask
	HostKey   ssh.Signer
	HostCAs   func(context.Context) ([]ssh.PublicKey, error)
	Dial      func(context.Context) (net.Conn, error) // to the proxies' common address
	Handle    func(context.Context, net.Conn)         // serves one connection opened by a proxy; blocks until it is over
	KeepAlive time.Duration
	Backoff   time.Duration // the longest between two tries; zero: 8 s, as the real program
	Log       *slog.Logger
}

// Pool keeps one tunnel to each proxy it has heard of, all dialled at one address: behind a load balancer it tries again until it has met each.
type Pool struct {
	cfg PoolConfig

	mu      sync.Mutex
	known   map[string]time.Time // proxy → when it was last spoken of
	claimed map[string]*agent
	wake    chan struct{}
	agents  sync.WaitGroup
}

// NewPool gives a pool that does nothing until Run.
func NewPool(cfg PoolConfig) *Pool {
	return &Pool{cfg: cfg, known: map[string]time.Time{}, claimed: map[string]*agent{}, wake: make(chan struct{}, 1)}
}

// Run connects agents until ctx ends, then waits for them to end.
func (p *Pool) Run(ctx context.Context) {
	defer p.agents.Wait()
	longest := cmp.Or(p.cfg.Backoff, maxBackoff)
	backoff := linear{step: min(backoffStep, longest), max: longest}
	for {
		if !p.waitWanted(ctx) {
			return
		}
		p.connectOne(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.next(time.Now())):
		}
	}
}

func (p *Pool) connectOne(ctx context.Context) {
	a, err := p.connect(ctx)
	switch {
	case errors.Is(err, errClaimed):
		p.cfg.Log.Debug("met a proxy again", "err", err)
	case err != nil:
		p.cfg.Log.Warn("connect agent", "err", err)
	default:
		p.cfg.Log.Info("tunnel connected", "proxy", a.proxyID)
		p.agents.Go(func() {
			a.run(ctx)
			p.cfg.Log.Info("tunnel closed", "proxy", a.proxyID)
		})
	}
}

// waitWanted blocks while every known proxy is claimed and at least one is; false when ctx ended.
func (p *Pool) waitWanted(ctx context.Context) bool {
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for !p.wanted(time.Now()) {
		select {
		case <-ctx.Done():
			return false
		case <-p.wake:
		case <-tick.C:
		}
	}
	return ctx.Err() == nil
}

// wanted also forgets proxies that are not connected and of which nobody spoke for long.
func (p *Pool) wanted(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, seen := range p.known {
		if p.claimed[id] == nil && now.Sub(seen) > proxyExpiry {
			delete(p.known, id)
		}
	}
	return len(p.claimed) < max(1, len(p.known))
}

func (p *Pool) expect(proxies []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range proxies {
		p.known[id] = time.Now()
	}
	p.nudge()
}

func (p *Pool) claim(a *agent) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claimed[a.proxyID] != nil {
		return false
	}
	p.claimed[a.proxyID] = a
	p.known[a.proxyID] = time.Now()
	return true
}

// release gives up a claim; a second call does nothing.
func (p *Pool) release(a *agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claimed[a.proxyID] == a {
		delete(p.claimed, a.proxyID)
		p.known[a.proxyID] = time.Now()
		p.nudge()
	}
}

func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Connected lists the proxies that this pool has a tunnel to, sorted.
func (p *Pool) Connected() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]string, 0, len(p.claimed))
	for id := range p.claimed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// linear is the agents' backoff: 0, 1 s, 2 s … 8 s, each halved at random, starting over when unused for four times the longest.
type linear struct {
	step, max time.Duration
	attempt   int
	last      time.Time
}

func (l *linear) next(now time.Time) time.Duration {
	if now.Sub(l.last) > 4*l.max {
		l.attempt = 0
	}
	l.last = now
	d := min(time.Duration(l.attempt)*l.step, l.max)
	l.attempt++
	if d == 0 {
		return 0
	}
	return d/2 + rand.N(d/2)
}
