package checks

import (
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// unrouted refuses terminals/150 at 30 s, because the proxy knew no way to agent-0.
func unrouted(through history.PodRef) func(*world) {
	return loses(func(s *history.Session) {
		s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, 0, 31*sec
		s.Proxy = through
	})
}

// routed lets an earlier session, due at 26 s, go the same way.
func routed(through history.PodRef) func(*world) {
	return func(w *world) {
		w.sessions(func(s *history.Session) {
			if s.ID == "terminals/130" {
				s.Proxy = through
			}
		})
	}
}

func made(p history.PodRef, at time.Duration) func(*world) {
	return func(w *world) { w.newPod(p, at, at+sec) }
}

func TestAttributionToNewPods(t *testing.T) {
	fresh := proxy(4)
	fresh.Revision = "new"
	killed := []func(*world){unrouted(proxy(4)), podGoes(proxy(1), 20*sec, 21*sec, 0), faultOn("kill", "podDelete", 20*sec, 24*sec, onPod(proxy(1))), made(proxy(4), 20*sec)}
	newAgent := func(w *world) {
		w.at(22*sec, "", history.PodChange{Pod: agent(2), State: history.PodCreated})
		w.sessions(func(s *history.Session) {
			if s.ID == "terminals/150" {
				s.Agent = history.Agent{UUID: "agent-uuid-2", Host: "agent-2-0", Pod: agent(2)}
			}
		})
	}
	drained := faultOn("drain", "nodeDrain", 21*sec, 25*sec, history.Target{Kind: "node", Name: "node-1"})
	signalled := func(container string) func(*world) {
		return func(w *world) {
			w.at(24*sec, "", history.ContainerEnd{Pod: agent(0), Container: container, Exit: 137, Signal: 9})
			w.sessions(func(s *history.Session) { s.Agent.Host = "agent-0-0" })
		}
	}
	for _, tt := range []struct {
		says  string
		mods  []func(*world)
		found bool
		by    string
		text  string
	}{
		{"its proxy came in place of one that a fault killed", killed, true, "fault kill", "proxy proxy-4 is new since 20s (fault kill) and agent agent-0 had no tunnel to it yet"},
		{"a session had gone the same way before", append([]func(*world){routed(proxy(4))}, killed...), false, "", "nothing explains it"},
		{"one had gone the same way, but later", append([]func(*world){func(w *world) {
			w.sessions(func(s *history.Session) {
				if s.ID == "terminals/160" {
					s.Proxy = proxy(4)
				}
			})
		}}, killed...), true, "fault kill", "had no tunnel to it yet"},
		{"the only agent there is had been reached by a canary", append([]func(*world){func(w *world) {
			w.at(25*sec, "", history.Probe{Pod: proxy(4)})
			w.sessions(func(s *history.Session) { s.Agent = history.Agent{UUID: "agent-uuid-0", Pod: agent(0)} })
		}}, killed...), false, "", "nothing explains it"},
		{"one of two agents had been reached by a canary, and nobody knows which", append([]func(*world){func(w *world) {
			w.at(25*sec, "", history.Probe{Pod: proxy(4)})
		}}, killed...), true, "fault kill", "had no tunnel to it yet"},
		{"its proxy is one that the rollout brought", []func(*world){unrouted(fresh), upgrade(15*sec, 60*sec, "new"), made(fresh, 20*sec)},
			true, "rollout up", "proxy proxy-4 is new since 20s (rollout up)"},
		{"its proxy came while a rollout went on that brings others", []func(*world){unrouted(proxy(4)), upgrade(15*sec, 60*sec, "new"), made(proxy(4), 20*sec)},
			false, "", "nothing explains it"},
		{"its proxy came in place of one that crashed away by itself", []func(*world){unrouted(proxy(4)), upgrade(1*sec, 2*sec, "old"), podGoes(proxy(1), 20*sec, 21*sec, 30*sec), made(proxy(4), 20*sec)},
			true, "", "(proxy-1 deleted by itself)"},
		{"its proxy was there before the first change", []func(*world){unrouted(proxy(1)), upgrade(15*sec, 60*sec, "new")}, false, "", "nothing explains it"},
		{"nothing was changed at all, but its proxy is new", []func(*world){unrouted(proxy(4)), made(proxy(4), 20*sec)}, false, "", "nothing explains it"},
		{"it was refused by a new proxy for another reason", append(killed[1:len(killed):len(killed)], unrouted(proxy(4)), loses(func(s *history.Session) { s.Cut = history.CutDenied })), false, "", "nothing explains it"},
		{"its agent came in place of one that a drain evicted", []func(*world){unrouted(proxy(2)), newAgent, podGoes(agent(1), 22*sec, 23*sec, 30*sec), drained},
			true, "fault drain", "agent agent-2 is new since 22s (fault drain) and had no tunnel to proxy proxy-2 yet"},
		{"both are new, and its agent is the younger", append([]func(*world){newAgent, podGoes(agent(1), 22*sec, 23*sec, 30*sec), drained}, killed...),
			true, "fault drain", "agent agent-2 is new"},
		{"its agent's process was killed and began anew", []func(*world){unrouted(proxy(4)), signalled("agent-0"), faultOn("hit", "containerSignal", 24*sec, 26*sec, onPod(agent(0)))},
			true, "fault hit", "agent agent-0 began anew at 24s (fault hit)"},
		{"another agent's process in the same pod was killed", []func(*world){unrouted(proxy(4)), signalled("agent-1"), faultOn("hit", "containerSignal", 24*sec, 26*sec, onPod(agent(0)))},
			false, "", "nothing explains it"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			check(t, steady(tt.mods...).measure(t), tt.found, false, tt.by, tt.text)
		})
	}
}

func TestAttributionToAuthThatIsAway(t *testing.T) {
	auth := func(i int) history.PodRef { return ref("auth", "auth-"+string(rune('0'+i))) }
	waits := loses(func(s *history.Session) {
		s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 45*sec
	})
	upgradeAuth := func(w *world) {
		for _, s := range []struct {
			stage history.RolloutStage
			at    time.Duration
		}{{history.RolloutStart, 10 * sec}, {history.RolloutEnd, 60 * sec}} {
			w.at(s.at, "up", history.Rollout{ID: "up", Entry: "up", Verb: "upgrade", Stage: s.stage, Component: "auth", Hash: "new"})
			w.events[len(w.events)-1].Outcome = history.OK
		}
	}
	// Both auth pods are asked to stop at 12 s; the process of the last one ends at 24 s. The next is ready at 40 s.
	both := []func(*world){waits, upgradeAuth, podGoes(auth(0), 12*sec, 20*sec, 30*sec), podGoes(auth(1), 12*sec, 24*sec, 30*sec), func(w *world) {
		w.newPod(auth(2), 25*sec, 40*sec)
	}}
	for _, tt := range []struct {
		says  string
		mods  []func(*world)
		found bool
		by    string
		text  string
	}{
		{"no auth was there while it waited, long after the pods were asked to stop", both, true, "rollout up", "no auth was there from 24s to 40s: auth-1 deleted at 12s by rollout up"},
		{"so it was, and its proxy was given time to end and was still there", append([]func(*world){podGoes(proxy(1), 32*sec, 60*sec, 30*sec)}, both...),
			true, "rollout up", "no auth was there"},
		{"so it was, but it was cut with its connection", append(both[1:len(both):len(both)], waits, loses(func(s *history.Session) { s.Cut, s.End = history.CutReset, 34*sec }), podGoes(proxy(1), 33*sec, 34*sec, 0)),
			true, "", "proxy-1 killed"},
		{"one auth stayed", []func(*world){waits, podGoes(auth(0), 12*sec, 20*sec, 30*sec)}, false, "", "nothing explains it"},
		{"auth was back before it began", append(both[:4:4], func(w *world) { w.newPod(auth(2), 25*sec, 28*sec) }), false, "", "nothing explains it"},
		{"auth was back before it began, but its agent has opened nothing since", append(both[:4:4], func(w *world) {
			w.newPod(auth(2), 25*sec, 28*sec)
			w.sessions(func(s *history.Session) {
				if s.Class == history.Clean && s.Open > 26*sec {
					s.Agent = history.Agent{UUID: "another", Pod: ref("agent", "agent-9")}
				}
			})
		}), true, "rollout up", "had not found an auth again: no auth was there from 24s to 28s"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			check(t, steady(tt.mods...).measure(t), tt.found, false, tt.by, tt.text)
		})
	}
}

// TestLossesOfNewPodsAreOneGroup: a new proxy that many agents have to find is one line of a report.
func TestLossesOfNewPodsAreOneGroup(t *testing.T) {
	m := steady(podGoes(proxy(1), 20*sec, 21*sec, 0), faultOn("kill", "podDelete", 20*sec, 24*sec, onPod(proxy(1))), made(proxy(4), 20*sec), func(w *world) {
		w.sessions(func(s *history.Session) {
			if s.ID == "terminals/150" || s.ID == "terminals/151" {
				s.Class, s.Open, s.Failed, s.Cut, s.End, s.Recorded, s.Proxy = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, 31*sec, false, proxy(4)
			}
			if s.Proxy.Name == "proxy-1" {
				s.Proxy = proxy(2)
			}
		})
	}).measure(t)
	groups := m.LossGroups()
	if len(groups) != 1 || groups[0].Count != 2 || !strings.Contains(groups[0].Cause, "agents had no tunnel to it yet") {
		t.Errorf("groups %+v, want one of two sessions to two agents", groups)
	}
}
