package checks

import (
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// loses makes one session of an otherwise good run end badly, in the way the test needs.
func loses(change func(*history.Session)) func(*world) {
	return func(w *world) {
		w.sessions(func(s *history.Session) {
			if s.ID == "terminals/150" { // due at 30 s, through proxy-1, to agent-0
				s.Class, s.Cut, s.Exit = history.Dropped, history.CutReset, nil
				s.LastHeard, s.End = 34*sec, 35*sec
				change(s)
			}
		})
	}
}

func asIs(*history.Session) {}

func podGoes(p history.PodRef, deleting, gone time.Duration, grace time.Duration) func(*world) {
	return func(w *world) {
		w.at(deleting, p.Name, history.PodChange{Pod: p, State: history.PodDeleting, Grace: grace})
		w.at(gone, p.Name, history.PodChange{Pod: p, State: history.PodGone})
	}
}

func faultOn(id, name string, from, to time.Duration, targets ...history.Target) func(*world) {
	return func(w *world) {
		for _, s := range []struct {
			stage history.FaultStage
			at    time.Duration
		}{{history.FaultInject, from}, {history.FaultBit, from + sec/2}, {history.FaultHealed, to}} {
			w.at(s.at, id, history.Fault{ID: id, Name: name, Entry: id, Stage: s.stage, Targets: targets, Proof: "seen"})
		}
	}
}

func upgrade(from, to time.Duration, hash string) func(*world) {
	return func(w *world) {
		for _, s := range []struct {
			stage history.RolloutStage
			at    time.Duration
		}{{history.RolloutStart, from}, {history.RolloutEnd, to}} {
			w.at(s.at, "up", history.Rollout{ID: "up", Entry: "up", Verb: "upgrade", Stage: s.stage, Component: "proxy", Hash: hash})
			w.events[len(w.events)-1].Outcome = history.OK
		}
	}
}

func onPod(p history.PodRef) history.Target {
	return history.Target{Kind: "pod", Name: p.Name, UID: p.UID, Pod: p}
}

func TestAttribution(t *testing.T) {
	node := history.Target{Kind: "node", Name: "node-1"}
	deployment := history.Target{Kind: "deployment", Name: "teleport-proxy", UID: "uid-d", Pod: history.PodRef{Component: "proxy"}}
	for _, tt := range []struct {
		says      string
		mods      []func(*world)
		found     bool
		ambiguous bool
		by        string
		text      string
	}{
		{"nothing happened to its pods", nil, false, false, "", "nothing explains it"},
		{"its proxy was deleted by a fault aimed at it", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 0), faultOn("kill", "podDelete", 34*sec, 40*sec, onPod(proxy(1)))},
			true, false, "fault kill", "proxy-1 killed at 34s by fault kill"},
		{"its proxy was replaced by the rollout", []func(*world){podGoes(proxy(1), 20*sec, 36*sec, 30*sec), upgrade(15*sec, 60*sec, "new")},
			true, false, "rollout up", "proxy-1 deleted at 20s by rollout up"},
		{"a rollout goes on, but its proxy lives", []func(*world){upgrade(15*sec, 60*sec, "new")}, false, false, "", "nothing explains it"},
		{"a fault hits another proxy", []func(*world){podGoes(proxy(2), 34*sec, 35*sec, 0), faultOn("kill", "podDelete", 34*sec, 40*sec, onPod(proxy(2)))},
			false, false, "", "nothing explains it"},
		{"its proxy ended long after", []func(*world){podGoes(proxy(1), 60*sec, 61*sec, 0)}, false, false, "", "nothing explains it"},
		{"its proxy crashed by itself", []func(*world){func(w *world) {
			w.at(35*sec, "", history.ContainerEnd{Pod: proxy(1), Container: "teleport", Exit: 137, Signal: 9, Reason: "OOMKilled"})
		}}, true, false, "", "proxy-1 killed at 35s by itself, container teleport: exit 137 (signal 9, OOMKilled)"},
		{"its agent's pod was evicted by a drain", []func(*world){func(w *world) {
			w.at(34*sec, "", history.PodChange{Pod: ref("agent", "agent-0"), State: history.PodEvicted})
			w.at(35*sec, "", history.PodChange{Pod: ref("agent", "agent-0"), State: history.PodGone})
		}, faultOn("drain", "nodeDrain", 33*sec, 80*sec, history.Target{Kind: "node", Name: "node-0"})}, true, false, "fault drain", "agent-0 evicted at 34s by fault drain"},
		{"a drained node, cordoned to the end, explains nothing later by itself", []func(*world){faultOn("drain", "nodeDrain", 10*sec, 80*sec, node)}, false, false, "", "nothing explains it"},
		{"a partition of its proxy is in force", []func(*world){faultOn("cut", "partition", 30*sec, 40*sec, onPod(proxy(1)))}, true, false, "fault cut", "fault cut (partition) acted on proxy-1"},
		{"a partition of its node is in force", []func(*world){faultOn("cut", "nodePartition", 30*sec, 40*sec, node)}, true, false, "fault cut", "acted on proxy-1"},
		{"a partition of its component is in force", []func(*world){faultOn("cut", "latency", 30*sec, 40*sec, history.Target{Kind: "component", Name: "proxy"})}, true, false, "fault cut", "acted on proxy-1"},
		{"a rollout of its component is stuck, and its pod lives", []func(*world){faultOn("stuck", "rolloutStuck", 30*sec, 40*sec, deployment)}, false, false, "", "nothing explains it"},
		{"a stuck rollout went back and took its pod away", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 30*sec), faultOn("stuck", "rolloutStuck", 20*sec, 36*sec, deployment)},
			true, false, "fault stuck", "proxy-1 deleted at 34s by fault stuck"},
		{"a partition of another pod is in force", []func(*world){faultOn("cut", "partition", 30*sec, 40*sec, onPod(proxy(3)))}, false, false, "", "nothing explains it"},
		{"a drain and a rollout may both have deleted its proxy", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 30*sec), upgrade(15*sec, 60*sec, "new"), faultOn("drain", "nodeDrain", 33*sec, 80*sec, node)},
			true, true, "fault drain", "ambiguous: proxy-1 deleted at 34s by fault drain or rollout up"},
		{"the rollout deleted its proxy just before a drain began, which then evicted it as well", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 30*sec), upgrade(15*sec, 60*sec, "new"), func(w *world) {
			w.at(34*sec+900*time.Millisecond, "", history.PodChange{Pod: proxy(1), State: history.PodEvicted})
			w.phase("drain", 34*sec+500*time.Millisecond, 40*sec)
		}, faultOn("drain", "nodeDrain", 34*sec+700*time.Millisecond, 80*sec, node)}, true, false, "rollout up", "proxy-1 deleted at 34s by rollout up"},
		{"a drain evicted its proxy a moment before the injection was written down", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 30*sec), upgrade(15*sec, 60*sec, "new"), func(w *world) {
			w.at(34*sec+10*time.Millisecond, "", history.PodChange{Pod: proxy(1), State: history.PodEvicted})
			w.phase("drain", 33*sec+500*time.Millisecond, 40*sec)
		}, faultOn("drain", "nodeDrain", 34*sec+700*time.Millisecond, 80*sec, node)}, true, false, "fault drain", "proxy-1 evicted at 34s by fault drain"},
		{"its agent ended, while its proxy had been asked to end and still had its grace period", []func(*world){loses(func(s *history.Session) { s.Cut = history.CutEOF }), podGoes(proxy(1), 33*sec, 60*sec, 30*sec), podGoes(ref("agent", "agent-0"), 34*sec, 35*sec, 30*sec)}, true, false, "", "agent-0 deleted"},
		{"its proxy and its agent both ended, and the connection was reset", []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 0), podGoes(ref("agent", "agent-0"), 34*sec, 35*sec, 0)}, true, false, "", "proxy-1 killed"},
		{"its proxy and its agent both ended, and a channel was closed", []func(*world){loses(func(s *history.Session) { s.Cut = history.CutChannel }), podGoes(proxy(1), 34*sec, 35*sec, 0), podGoes(ref("agent", "agent-0"), 34*sec, 35*sec, 0)}, true, false, "", "agent-0 killed"},
		{"its proxy and its agent both ended, and nothing answered any more", []func(*world){loses(func(s *history.Session) { s.Cut = history.CutKeepalive }), podGoes(proxy(1), 34*sec, 35*sec, 0), podGoes(ref("agent", "agent-0"), 34*sec, 35*sec, 0)}, true, true, "", "ambiguous"},
		{"the server ended it while an auth pod was replaced", []func(*world){loses(func(s *history.Session) { s.Cut = history.CutMessage }), podGoes(ref("auth", "auth-1"), 34*sec, 35*sec, 30*sec)}, true, false, "", "it depends on auth: auth-1 deleted"},
		{"an auth pod was replaced, and the connection was reset", []func(*world){podGoes(ref("auth", "auth-1"), 34*sec, 35*sec, 30*sec)}, false, false, "", "nothing explains it"},
		{"its node was lost", []func(*world){func(w *world) {
			w.at(34*sec, "", history.NodeChange{Node: "node-1", State: history.NodeNotReady})
			w.at(50*sec, "", history.NodeChange{Node: "node-1", State: history.NodeReady})
		}}, true, false, "", "proxy-1 node-lost at 34s by itself, node node-1 not ready"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := steady(append([]func(*world){loses(asIs)}, tt.mods...)...).measure(t)
			check(t, m, tt.found, tt.ambiguous, tt.by, tt.text)
		})
	}
}

func check(t *testing.T, m *Measures, found, ambiguous bool, by, text string) {
	t.Helper()
	list, n := m.LostSessions(10)
	if n != 1 {
		t.Fatalf("%d lost sessions, want 1", n)
	}
	c := list[0].Cause
	if c.Found != found || c.Ambiguous != ambiguous || !strings.Contains(c.Text, text) {
		t.Errorf("cause %+v, want found %t, ambiguous %t, %q", c, found, ambiguous, text)
	}
	if by != "" && (len(c.By) == 0 || c.By[0] != by) {
		t.Errorf("by %q, want %q", c.By, by)
	}
	if want := map[bool]int{true: 0, false: 1}[found]; m.All.Unattributed != want {
		t.Errorf("unattributed %d, want %d", m.All.Unattributed, want)
	}
}

func TestAttributionOfRefusalsAndStalls(t *testing.T) {
	refusedBy := func(proxyKnown bool) func(*world) {
		return loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseConnect, history.CutConnect, 0, 31*sec
			if !proxyKnown {
				s.Proxy, s.ProxyHow = history.PodRef{}, "service"
			}
		})
	}
	for _, tt := range []struct {
		says  string
		mods  []func(*world)
		found bool
		text  string
	}{
		{"refused by a proxy that was ending", []func(*world){refusedBy(true), podGoes(proxy(1), 29*sec, 40*sec, 30*sec)}, true, "proxy-1 deleted"},
		{"refused by the Service while one of its proxies was ending", []func(*world){refusedBy(false), podGoes(proxy(3), 29*sec, 40*sec, 30*sec)}, true, "the Service still led to it: proxy-3"},
		{"refused by the Service while nothing was going on", []func(*world){refusedBy(false)}, false, "nothing explains it"},
		{"refused for the route, because the agent's tunnel went through a proxy that was ending", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, 0, 31*sec
		}), podGoes(proxy(3), 26*sec, 28*sec, 0), func(w *world) {
			w.at(28*sec, "", history.AgentChange{Agent: history.Agent{UUID: "agent-uuid-0"}, State: "disconnected", Proxy: proxy(3)})
		}}, true, "the agent lost its tunnel: proxy-3 killed"},
		{"refused while the auths' storage was slow", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 40*sec
		}), func(w *world) { w.at(0, "", history.PodChange{Pod: ref("etcd", "etcd-0"), State: history.PodCreated}) }, faultOn("slow", "backendFailure", 29*sec, 45*sec, onPod(ref("etcd", "etcd-0")))},
			true, "it depends on auth, and that on its storage: fault slow (backendFailure) acted on etcd-0"},
		{"stalled while its proxy was paused", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Cut, s.End, s.Gaps = history.Stalled, "", 60*sec, []history.Gap{{From: 33 * sec, Took: 6 * sec}}
		}), faultOn("freeze", "containerPause", 33*sec, 39*sec, onPod(proxy(1)))}, true, "fault freeze (containerPause) acted on proxy-1"},
		{"stalled at another time than its proxy was paused", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Cut, s.End, s.Gaps = history.Stalled, "", 60*sec, []history.Gap{{From: 50 * sec, Took: 6 * sec}}
		}), faultOn("freeze", "containerPause", 33*sec, 39*sec, onPod(proxy(1)))}, false, "nothing explains it"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			check(t, steady(tt.mods...).measure(t), tt.found, false, "", tt.text)
		})
	}
}

func TestRecordingsByHolder(t *testing.T) {
	m := steady(damage("terminals/150", history.RecMissing), damage("terminals/151", history.RecTruncated), func(w *world) {
		w.recordings(func(r *history.Recording) {
			if r.Session == "terminals/150" {
				r.Mode, r.Holder, r.HolderGone = "proxy", proxy(1), true
			}
		})
	}, podGoes(proxy(1), 34*sec, 35*sec, 0)).measure(t)
	want := []RecordingCell{
		{Class: history.RecComplete, Mode: "node", Storage: "emptyDir", Holder: "alive", Count: 398},
		{Class: history.RecTruncated, Mode: "node", Storage: "emptyDir", Holder: "alive", Count: 1},
		{Class: history.RecMissing, Mode: "proxy", Storage: "emptyDir", Holder: "killed", Count: 1},
	}
	if len(m.Matrix) != len(want) {
		t.Fatalf("matrix %+v", m.Matrix)
	}
	for i := range want {
		if m.Matrix[i] != want[i] {
			t.Errorf("row %d: %+v, want %+v", i, m.Matrix[i], want[i])
		}
	}
	r, err := m.Data().Recordings(gates.Filter{Mode: "proxy", Holder: "killed"}, gates.Window{})
	if err != nil || r.Missing != 1 || r.Expected != 1 {
		t.Errorf("missing by a killed proxy: %+v, %v", r, err)
	}
	if r, err := m.Data().Recordings(gates.Filter{Holder: "evicted"}, gates.Window{}); err == nil {
		t.Errorf("no recording had an evicted holder, got %+v", r)
	}
}
