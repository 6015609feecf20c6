package run

import (
	"context"
	"slices"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/tctl"
)

// kubeServers writes down which pod each server of Kubernetes is, by the UUID that audit events name: in this chart
// the auths are. It ends with ctx, and does nothing in a run without Kubernetes sessions.
func (t *trial) kubeServers(ctx context.Context) {
	if !t.hasKube() {
		return
	}
	known := map[string]bool{} // pods
	for {
		if t.unknownAuth(known) {
			servers, err := t.system.tctl.Auths(ctx)
			if err != nil {
				t.Log.Debug("list auths", "err", err)
			}
			t.nameAuths(servers, known)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(3 * time.Second):
		}
	}
}

func (t *trial) hasKube() bool {
	return slices.ContainsFunc(t.plan.Streams, func(s scenarios.StreamPlan) bool {
		return slices.ContainsFunc(s.Mix, func(w scenarios.Weighted) bool { return w.Session.Kind != scenarios.SSH })
	})
}

func (t *trial) unknownAuth(known map[string]bool) bool {
	return slices.ContainsFunc(t.state.Running(pods.Auth), func(p pods.Pod) bool { return p.Ready && !known[p.UID] })
}

// nameAuths records the servers whose host name is that of a pod that runs.
func (t *trial) nameAuths(servers []tctl.Node, known map[string]bool) {
	for _, p := range t.state.Running(pods.Auth) {
		for _, s := range servers {
			if s.Host == p.Name && !known[p.UID] {
				known[p.UID] = true
				a := history.Agent{UUID: s.UUID, Host: s.Host, Pod: p.Ref()}
				t.state.Record(history.Event{Subject: s.Host, Data: history.AgentChange{Agent: a, State: "registered"}})
			}
		}
	}
}
