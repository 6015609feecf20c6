package run

import (
	"context"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/tctl"
)

// listedTime is how long Teleport lists a node that it no longer hears of (apidefaults.ServerAnnounceTTL).
const listedTime = 10 * time.Minute

// census writes down which agents Teleport still lists although their pods are gone.
func (t *trial) census(ctx context.Context) {
	nodes, err := t.system.tctl.Nodes(ctx)
	if err != nil {
		t.Log.Warn("list nodes at the end", "err", err)
		return
	}
	for _, a := range t.targets.dead(nodes) {
		t.state.Record(history.Event{Subject: a.Host, Data: history.AgentChange{Agent: a, State: history.AgentListed}})
	}
}

// dead are the agents among the nodes that were known, and whose pods are gone.
func (g *targets) dead(nodes []tctl.Node) (out []history.Agent) {
	listed := map[string]bool{}
	for _, n := range nodes {
		listed[n.UUID] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.agents {
		if _, lives := g.state.Pod(a.Pod.UID); listed[a.UUID] && a.Pod.UID != "" && !lives {
			out = append(out, a)
		}
	}
	return out
}

// shortened is a time of Teleport's own on this system: the stand-in may be told to be quicker.
func (r *runner) shortened(d time.Duration) time.Duration {
	factor := 1.0
	if f, ok := helm.Get(r.plan.Teleport.From.Values, "standin", "timeFactor"); ok && r.standin() {
		switch n := f.(type) {
		case float64:
			factor = n
		case int:
			factor = float64(n)
		case int64:
			factor = float64(n)
		}
	}
	return time.Duration(float64(d) / max(factor, 1))
}
