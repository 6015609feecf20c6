package run

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/tctl"
)

func TestSessionsGoToAgentsThatStay(t *testing.T) {
	tr, _ := rig(t, podOf("agents", "agent", "a"), podOf("agents", "agent", "slow", unready), podOf("agents", "agent", "old", ending))
	g := &targets{t: tr, state: tr.state, agents: []history.Agent{agentOf("a"), agentOf("slow"), agentOf("old"), agentOf("gone")}}
	if diff := cmp.Diff([]history.Agent{agentOf("a")}, g.Agents()); diff != "" {
		t.Error(diff)
	}
	g.reached.mark("uid-slow", time.Now())
	if diff := cmp.Diff([]history.Agent{agentOf("a"), agentOf("slow")}, g.Agents()); diff != "" {
		t.Errorf("an agent that is not ready and answers counts: %s", diff)
	}
}

func TestProxiesAreAllButOnlyReadyOnesTakeSessions(t *testing.T) {
	tr, _ := rig(t, podOf("teleport", "proxy", "p"), podOf("teleport", "proxy", "new", unready), podOf("teleport", "proxy", "old", ending))
	got := map[string]bool{}
	for _, p := range (&targets{t: tr, state: tr.state}).Proxies() {
		got[p.Pod.Name] = p.Ready
	}
	if diff := cmp.Diff(map[string]bool{"p": true, "new": false, "old": false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplacedAgentsAreLearntOnce(t *testing.T) {
	tr, b := rig(t, podOf("agents", "agent", "a"), podOf("agents", "agent", "b"))
	g := &targets{t: tr, state: tr.state, agents: []history.Agent{agentOf("a")}}
	if !g.unknown() {
		t.Fatal("a ready agent pod that nobody knows is not noticed")
	}
	nameless := history.Agent{UUID: "x", Host: "x"} // of a pod that is not there
	for range 2 {
		g.learn([]history.Agent{agentOf("a"), agentOf("b"), nameless}, nil)
	}
	if g.unknown() {
		t.Error("all are known, and it looks for more")
	}
	if diff := cmp.Diff([]history.AgentChange{{Agent: agentOf("b"), State: "registered"}}, payloads[history.AgentChange](b)); diff != "" {
		t.Errorf("in the history: %s", diff)
	}
}

func TestDeadAgentsAreThoseStillListed(t *testing.T) {
	tr, _ := rig(t, podOf("agents", "agent", "lives"))
	g := &targets{t: tr, state: tr.state, agents: []history.Agent{agentOf("lives"), agentOf("listed"), agentOf("forgotten")}}
	nodes := []tctl.Node{{UUID: "uuid-lives"}, {UUID: "uuid-listed"}, {UUID: "somebody's"}}
	if diff := cmp.Diff([]history.Agent{agentOf("listed")}, g.dead(nodes)); diff != "" {
		t.Error(diff)
	}
}

func TestHolder(t *testing.T) {
	tr, _ := rig(t, podOf("teleport", "auth", "auth"), podOf("agents", "agent", "a"), podOf("agents", "agent", "done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	tr.ends.tap(history.Event{At: 20 * time.Second, Data: history.ContainerEnd{Pod: history.PodRef{UID: "uid-a"}, Container: "teleport"}})
	tr.ends.tap(history.Event{At: 90 * time.Second, Data: history.ContainerEnd{Pod: history.PodRef{UID: "uid-a"}, Container: "wait", Init: true}})
	g := &targets{t: tr, state: tr.state}
	for _, row := range []struct {
		why       string
		pod       history.PodRef
		since     time.Duration
		persisted any
		want      recordings.Holder
	}{
		{"a pod that lives", history.PodRef{UID: "uid-a", Component: "agent"}, 30 * time.Second, nil, recordings.Holder{Storage: "emptyDir"}},
		{"one whose container ended after the session", history.PodRef{UID: "uid-a", Component: "agent"}, 10 * time.Second, nil, recordings.Holder{Storage: "emptyDir", Restarted: true}},
		{"one that is gone", history.PodRef{UID: "uid-x", Component: "agent"}, 0, nil, recordings.Holder{Storage: "emptyDir", Gone: true}},
		{"one that ended and is still there", history.PodRef{UID: "uid-done", Component: "agent"}, 0, nil, recordings.Holder{Storage: "emptyDir", Gone: true}},
		{"an auth has a claim by default", history.PodRef{UID: "uid-auth", Component: "auth"}, 0, nil, recordings.Holder{Storage: "pvc"}},
		{"unless the values say otherwise", history.PodRef{UID: "uid-auth", Component: "auth"}, 0, false, recordings.Holder{Storage: "emptyDir"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			tr.system.values = helm.Values{}
			if row.persisted != nil {
				tr.system.values = helm.Set(row.persisted, "persistence", "enabled")
			}
			if diff := cmp.Diff(row.want, g.holder(row.pod, row.since)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
