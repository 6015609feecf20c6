package run

import (
	"context"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/ssh"
)

// An agent that lost its auth for a while says for minutes that it is not ready, while sessions go to it as before
// (seen with 13.0.0-dev after the only auth was replaced). So agents whose pods are not ready are tried, and what
// ran a command lately counts as there.
const (
	reachEvery   = 2 * time.Second
	reachTimeout = 3 * time.Second
	reachedFor   = 8 * time.Second
)

// reached remembers which pods' agents answered when.
type reached struct {
	mu   sync.Mutex
	last map[string]time.Time // by pod UID
}

// mark says that a pod answered to what was asked at a moment.
func (r *reached) mark(uid string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	r.last[uid] = at
}

func (r *reached) lately(uid string) bool { return r.since(uid, time.Time{}) }

func (r *reached) since(uid string, t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.last[uid]
	return ok && time.Since(at) < reachedFor && at.After(t)
}

// works says whether all agents of a pod that is not ready could be dialled lately; it is chaos.World.Works.
func (g *targets) works(uid types.UID, since time.Time) bool {
	return g.reached.since(string(uid), since)
}

// keepReaching dials agents of pods that run and are not ready, until ctx ends.
func (g *targets) keepReaching(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reachEvery):
		}
		var all sync.WaitGroup
		for _, p := range g.state.Running(pods.Agent) {
			if !p.Ready && !p.Terminating {
				all.Go(func() { g.reach(ctx, p) })
			}
		}
		all.Wait()
	}
}

// reach dials every agent of a pod that is known through a proxy.
func (g *targets) reach(ctx context.Context, p pods.Pod) {
	way, ok := g.wayIn()
	known := g.agentsOf(p.UID)
	if !ok || len(known) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	began := time.Now()
	for _, a := range known {
		if !g.runs(ctx, way, a) {
			return
		}
	}
	g.reached.mark(p.UID, began)
}

// runs says whether a command ran on the agent. That it can be dialled is not enough: one that has not found its
// auth again lets everybody in and starts nothing.
func (g *targets) runs(ctx context.Context, way ssh.Proxy, a history.Agent) bool {
	s, err := g.ssh.Open(ctx, way, ssh.Target{Node: a.UUID}, ssh.Start{Command: "true"})
	if err != nil {
		return false
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, s)
	end := s.End(ctx)
	return end.Exited && end.Status == 0
}

// wayIn is a proxy pod that serves by Kubernetes' word.
func (g *targets) wayIn() (ssh.Proxy, bool) {
	for _, p := range g.state.Proxies() {
		if p.Ready && !p.Terminating {
			return p.Through(false), true
		}
	}
	return ssh.Proxy{}, false
}

func (g *targets) agentsOf(pod string) (out []history.Agent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.agents {
		if a.Pod.UID == pod {
			out = append(out, a)
		}
	}
	return out
}

// there says whether a pod runs and is not being ended.
func (g *targets) there(uid string) bool {
	p, ok := g.state.Pod(uid)
	return ok && p.Phase == corev1.PodRunning && !p.Terminating
}
