package checks

import (
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// TestDefaultChecks has for every check a run it passes, one it fails and one it must call inconclusive.
func TestDefaultChecks(t *testing.T) {
	for _, tt := range []struct {
		check   string
		says    string
		run     *world
		want    Outcome
		summary string
	}{
		{"validity", "a valid run", steady(), Pass, "the run is valid"},
		{"validity", "an invalid run is inconclusive: validity never fails", steady(func(w *world) { w.cut = true }), Inconclusive, "truncated"},

		{"sessions explained", "every loss has a cause", killed(), Pass, "each of 16 lost sessions has a named cause"},
		{"sessions explained", "a session drops while its pod lives", steady(dropOne), Fail, "1 of 1 lost sessions have no cause"},
		{"sessions explained", "a session drops while the pods could not be observed", steady(dropOne, blind), Inconclusive, "could not be observed"},
		{"sessions explained", "there was no session though some were due", steady(func(w *world) {
			w.drop(func(e history.Event) bool { return e.Kind == history.KindSession })
		}), Inconclusive, "no session"},

		{"recordings explained", "all complete", steady(), Pass, "each of 0 damaged"},
		{"recordings explained", "one missing though its holder lives", steady(damage("terminals/8", history.RecMissing)), Fail, "1 recordings were damaged without a cause (1 missing)"},
		{"recordings explained", "one truncated though its holder lives", steady(damage("terminals/8", history.RecTruncated)), Fail, "1 truncated"},
		{"recordings explained", "one without end though its holder lives", steady(damage("terminals/8", history.RecNoEnd)), Fail, "1 noEnd"},
		{"recordings explained", "one missing after its proxy was killed", killed(damage("terminals/120", history.RecMissing)), Pass, "each of 1 damaged"},
		{"recordings explained", "none expected though a gate asks", steady(noRecordings, gateOn("recordings.missing == 0")), Inconclusive, "no recording was expected"},

		{"nothing recorded twice", "each event once", steady(), Pass, "no recording has an event twice"},
		{"nothing recorded twice", "events twice in a session that nothing disturbed", steady(recordedTwice("terminals/8")), Fail, "1 recordings have events more than once"},
		{"nothing recorded twice", "events twice in a session that a proxy ended beside", killed(recordedTwice("terminals/121")), Pass, "1 recordings have events more than once, of sessions that were disturbed"},

		{"lines intact", "all lines came back", steady(), Pass, "what was typed"},
		{"lines intact", "a line came back otherwise", steady(func(w *world) {
			w.sessions(func(s *history.Session) { s.Lines.Bad = boolInt(s.ID == "terminals/7") })
		}), Fail, "1 sessions got back lines"},
		{"lines intact", "no session was open", steady(refuseAll), Inconclusive, "no session was open"},

		{"ready means serving", "canaries go through every ready pod", killed(), Pass, "no pod stayed ready"},
		{"ready means serving", "a pod stays ready while dead", steady(dead("proxy-2", 20*sec, 60*sec)), Fail, "proxy-2 was ready but served nobody for 39"},
		{"ready means serving", "a pod that was dead from the beginning", steady(dead("proxy-2", 0, 15*sec)), Fail, "proxy-2 was ready but served nobody for 14"},
		{"ready means serving", "a new pod that is not served through yet for a while", killed(dead("proxy-4", 38*sec, 70*sec)), Pass, "no pod stayed ready"},
		{"ready means serving", "a pod that a fault acts on", steady(dead("proxy-2", 20*sec, 60*sec), faultOn("freeze", "containerPause", 19*sec, 62*sec, onPod(proxy(2)))), Pass, "no pod stayed ready"},
		{"ready means serving", "the auth that it depends on is cut off", steady(dead("proxy-2", 20*sec, 60*sec), faultOn("cut", "partition", 19*sec, 62*sec, onPod(ref("auth", "auth-0")))), Pass, "no pod stayed ready"},
		{"ready means serving", "there was no agent to ask it for", steady(dead("proxy-2", 20*sec, 60*sec), func(w *world) {
			edit(w, func(_ *history.Event, p *history.Probe) {
				if p.Error != "" {
					p.Failed, p.Error = history.PhaseRoute, history.NoAgent
				}
			})
		}), Pass, "no pod stayed ready"},
		{"ready means serving", "a new pod that has no tunnel yet", killed(routeless("proxy-4", 38*sec, 70*sec)), Pass, "pod proxy-4 was ready 32.0 s before its first tunnel: it is new since 31s (fault kill)"},
		{"ready means serving", "a new pod that loses its one tunnel before it has another", killed(routeless("proxy-4", 50*sec, 70*sec), refuseThrough("proxy-4", 55*sec)), Pass, "proxy-4 was ready without a tunnel for 19s from 50s on: proxy proxy-4 is new since 31s (fault kill) and agent"},
		{"ready means serving", "a new pod that has no tunnel any more, and no agent is known to wait", killed(routeless("proxy-4", 50*sec, 70*sec)), Fail, "proxy-4 was ready but served nobody for 19"},
		{"ready means serving", "a new pod that served and is dead for another reason", killed(dead("proxy-4", 50*sec, 70*sec)), Fail, "proxy-4 was ready but served nobody for 19"},
		{"ready means serving", "a new pod without a tunnel to the end", killed(routeless("proxy-4", 50*sec, 90*sec), refuseThrough("proxy-4", 55*sec)), Fail, "proxy-4 was ready but served nobody for 39"},
		{"ready means serving", "an old pod without a tunnel", steady(routeless("proxy-2", 20*sec, 60*sec)), Fail, "proxy-2 was ready but served nobody for 39"},
		{"ready means serving", "nothing was probed", steady(func(w *world) {
			w.drop(func(e history.Event) bool { return e.Kind == history.KindProbe })
		}), Inconclusive, "both watched and probed"},

		{"serving means ready", "every pod that serves is ready", killed(), Pass, "no pod that served was kept out"},
		{"serving means ready", "a pod serves and says that it is not ready", steady(unready("proxy-2", 20*sec, 60*sec)), Fail, "proxy-2 served but was not ready for 39"},
		{"serving means ready", "a pod that is neither ready nor serves", steady(unready("proxy-2", 20*sec, 60*sec), dead("proxy-2", 20*sec, 60*sec)), Pass, "no pod that served was kept out"},
		{"serving means ready", "a pod that is not ready for a short time", steady(unready("proxy-2", 20*sec, 29*sec)), Pass, "no pod that served was kept out"},
		{"serving means ready", "a pod that a fault acts on", steady(unready("proxy-2", 20*sec, 60*sec), faultOn("freeze", "containerPause", 19*sec, 62*sec, onPod(proxy(2)))), Pass, "no pod that served was kept out"},

		{"registered means reachable", "every agent is reached", killed(), Pass, "no registered agent was out of reach"},
		{"registered means reachable", "no proxy knows a way to an agent any more", steady(unroute(1, 20*sec, 40*sec)), Fail, "the agent of agent-1 was registered and out of reach: 50 sessions in 19.6s from 20.2s on"},
		{"registered means reachable", "for a short time", steady(unroute(1, 20*sec, 28*sec)), Pass, "no registered agent was out of reach"},
		{"registered means reachable", "what was done to the agent in between is no part of it", steady(unroute(1, 20*sec, 40*sec), faultOn("cut", "nodePartition", 29*sec, 31*sec, onPod(agent(1)))), Pass, "no registered agent was out of reach"},
		{"registered means reachable", "one proxy hangs and need not know that there is no way", steady(unroute(1, 20*sec, 40*sec), func(w *world) {
			w.sessions(func(s *history.Session) {
				if s.Proxy == proxy(2) && s.Class == history.Refused {
					s.Failed, s.Cut = history.PhaseTLS, history.CutTimeout
				}
			})
		}), Pass, "no registered agent was out of reach"},
		{"registered means reachable", "an agent that was killed meanwhile", steady(unroute(1, 20*sec, 40*sec), faultOn("cut", "nodePartition", 19*sec, 42*sec, onPod(agent(1)))), Pass, "no registered agent was out of reach"},

		{"dead nodes are forgotten", "a node stays listed long after its pod", steady(podGoes(agent(1), 20*sec, 21*sec, sec), listedAt(agent(1), 90*sec, 6*sec)), Fail, "node agent-1 was still listed 1m9s after its pod had gone, 6s is allowed"},
		{"dead nodes are forgotten", "a node is listed for as long as Teleport does", steady(podGoes(agent(1), 20*sec, 21*sec, sec), listedAt(agent(1), 90*sec, 0)), Pass, "1 nodes whose pods are gone were still listed"},

		{"pods stop in time", "a deleted pod stops", killed(graceful(1, 0, 8*sec)), Pass, "1 pods that were asked to stop"},
		{"pods stop in time", "a deleted pod never drains and is killed", killed(graceful(137, 9, 30*sec)), Fail, "proxy-3 did not stop within its 30s"},
		{"pods stop in time", "a deleted pod whose container the kubelet had lost", killed(graceful(137, 9, 30*sec), func(w *world) {
			edit(w, func(_ *history.Event, c *history.ContainerEnd) {
				if c.Pod.Name == "proxy-3" {
					c.Reason = "ContainerStatusUnknown"
				}
			})
		}), Inconclusive, "how they ended was not seen"},
		{"pods stop in time", "a deleted pod ended unseen", killed(graceful(-1, 0, 8*sec)), Inconclusive, "how they ended was not seen"},

		{"nothing ends by itself", "a proxy is killed by the run", killed(), Pass, "none of 8 pods ended but"},
		{"nothing ends by itself", "a proxy crashes", steady(func(w *world) {
			w.at(35*sec, "", history.ContainerEnd{Pod: proxy(1), Container: "teleport", Exit: 137, Signal: 9, Reason: "OOMKilled"})
		}), Fail, "proxy-1 killed at 35s by itself, container teleport: exit 137 (signal 9, OOMKilled)"},
		{"nothing ends by itself", "a process is signalled by the run", steady(faultOn("sig", "containerSignal", 34*sec, 40*sec, onPod(proxy(1))), func(w *world) {
			w.at(35*sec, "", history.ContainerEnd{Pod: proxy(1), Container: "teleport", Exit: 137, Signal: 9})
		}), Pass, "none of"},
		{"nothing ends by itself", "somebody else deletes a proxy", steady(podGoes(proxy(1), 34*sec, 35*sec, 30*sec)), Inconclusive, "proxy-1 deleted at 34s by itself"},
		{"nothing ends by itself", "no pod was watched", steady(func(w *world) {
			w.drop(func(e history.Event) bool { return e.Kind == history.KindPod })
		}), Inconclusive, "no pod of the system was watched"},
		{"nothing ends by itself", "the namespace is deleted after the timeline", steady(podGoes(proxy(1), 93*sec, 94*sec, 30*sec)), Pass, "none of"},
		{"rollouts succeeded", "the rollout ends well", steady(rolled(history.OK)), Pass, "upgrade up ended after 20s"},
		{"rollouts succeeded", "the rollout fails", steady(rolled(history.Failed)), Fail, "upgrade up failed"},
		{"rollouts succeeded", "the rollout never ends", steady(rolled("")), Inconclusive, "nobody knows how upgrade up ended"},

		{"timeline kept", "every entry took place", killed(), Pass, "all 3 entries"},
		{"timeline kept", "a condition was missed and the scenario calls that a failure", steady(missed("fail")), Fail, "half updated: its condition did not hold in time"},
		{"timeline kept", "a condition was missed", steady(missed("")), Inconclusive, "half updated: its condition"},
		{"timeline kept", "a condition was missed and the scenario skips", steady(missed("skip")), Pass, "all 3 entries"},

		{"recovered", "capacity and latency come back", killed(), Pass, "recovered 7.0 s after"},
		{"recovered", "no replacement for five minutes", killed(noReplacement, longer(400*sec)), Fail, "not recovered within"},
		{"recovered", "no replacement as long as was watched", killed(noReplacement), Inconclusive, "no recovery seen in the 59 s"},
	} {
		t.Run(tt.check+"/"+tt.says, func(t *testing.T) {
			fs := findings(t, tt.check, tt.run.measure(t))
			if len(fs) == 0 {
				t.Fatal("no finding")
			}
			for _, f := range fs {
				if f.Outcome == tt.want && strings.Contains(f.Summary+strings.Join(f.Details, ""), tt.summary) {
					return
				}
			}
			t.Errorf("want %s %q, got %+v", tt.want, tt.summary, fs)
		})
	}
}

func findings(t *testing.T, name string, m *Measures) []Finding {
	t.Helper()
	for _, c := range Default() {
		if c.Name == name {
			return c.run(m)
		}
	}
	t.Fatalf("no check %q", name)
	return nil
}

func TestEveryDefaultCheckIsTested(t *testing.T) {
	m := steady().measure(t)
	for _, c := range Default() {
		for _, f := range c.run(m) {
			if f.Outcome == Fail {
				t.Errorf("%s fails a run in which all is well: %s", c.Name, f.Summary)
			}
		}
	}
}

func boolInt(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func dropOne(w *world) {
	w.sessions(func(s *history.Session) {
		if s.ID == "terminals/100" {
			s.Class, s.Cut, s.End, s.LastHeard, s.Exit = history.Dropped, history.CutEOF, 25*sec, 24*sec, nil
		}
	})
}

func blind(w *world) {
	w.at(60*sec, "", history.Blind{What: "pods", From: 20 * sec, Until: 30 * sec, Error: "watch closed"})
}

func damage(id string, class history.RecordingClass) func(*world) {
	return func(w *world) {
		w.recordings(func(r *history.Recording) {
			if r.Session == id {
				r.Class = class
			}
		})
	}
}

func dead(pod string, from, to time.Duration) func(*world) {
	return func(w *world) {
		edit(w, func(e *history.Event, p *history.Probe) {
			if p.Pod.Name == pod && e.At >= from && e.At < to {
				p.Failed, p.Error = history.PhaseSSHProxy, "timeout"
			}
		})
	}
}

// routeless lets canaries through a pod get as far as the pod and find no way to an agent.
func routeless(pod string, from, to time.Duration) func(*world) {
	return func(w *world) {
		dead(pod, from, to)(w)
		edit(w, func(_ *history.Event, p *history.Probe) {
			if p.Failed != "" {
				p.Failed = history.PhaseRoute
			}
		})
	}
}

// refuseThrough refuses the session due then, because the proxy knew no way to its agent.
func refuseThrough(pod string, due time.Duration) func(*world) {
	return func(w *world) {
		w.sessions(func(s *history.Session) {
			if s.Due == due {
				s.Class, s.Open, s.Failed, s.Cut, s.End, s.Recorded = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, due+sec, false
				s.Proxy = ref("proxy", pod)
			}
		})
	}
}

// graceful deletes proxy-3 at 40 s with 30 s of grace; exit -1: the container's end is not seen.
func graceful(exit, signal int, after time.Duration) func(*world) {
	return func(w *world) {
		w.at(40*sec, "proxy-3", history.PodChange{Pod: proxy(3), State: history.PodDeleting, Grace: 30 * sec})
		if exit >= 0 {
			w.at(40*sec+after, "proxy-3", history.ContainerEnd{Pod: proxy(3), Container: "teleport", Exit: exit, Signal: signal})
		}
		w.at(40*sec+after, "proxy-3", history.PodChange{Pod: proxy(3), State: history.PodGone})
	}
}

func rolled(outcome history.Outcome) func(*world) {
	return func(w *world) {
		w.at(30*sec, "up", history.Rollout{ID: "up", Entry: "rollout", Verb: "upgrade", Stage: history.RolloutStart, From: "1.0.0", To: "1.1.0"})
		if outcome != "" {
			w.at(50*sec, "up", history.Rollout{ID: "up", Entry: "rollout", Verb: "upgrade", Stage: history.RolloutEnd})
			w.events[len(w.events)-1].Outcome = outcome
		}
	}
}

func missed(orElse string) func(*world) {
	return func(w *world) {
		w.at(30*sec, "half updated", history.Entry{Name: "half updated", State: history.EntryWaiting, When: `rollout("proxy").updated >= 0.5`})
		w.at(60*sec, "half updated", history.Entry{Name: "half updated", State: history.EntryMissed, OrElse: orElse})
	}
}

func noReplacement(w *world) {
	w.drop(func(e history.Event) bool {
		p, ok := e.Data.(history.Probe)
		return ok && p.Pod.Name == "proxy-4"
	})
}

// longer keeps watching the two proxies that are left.
func longer(until time.Duration) func(*world) {
	return func(w *world) {
		edit(w, func(e *history.Event, _ *history.RunEnd) { e.At = until })
		for t := 90 * sec; t < until; t += sec {
			for i := 2; i <= 3; i++ {
				w.at(t, proxy(i).Name, history.Probe{Pod: proxy(i), Took: 40 * time.Millisecond})
			}
		}
	}
}

// unready has a proxy say that it is not ready, while it serves.
func unready(name string, from, to time.Duration) func(*world) {
	return func(w *world) {
		i := int(name[len(name)-1] - '0')
		w.at(from, name, history.PodChange{Pod: proxy(i), State: history.PodUnready})
		w.at(to, name, history.PodChange{Pod: proxy(i), State: history.PodReady})
	}
}

// listedAt has Teleport list a dead agent; bound is how long it may.
func listedAt(pod history.PodRef, at, bound time.Duration) func(*world) {
	return func(w *world) {
		w.start.Bounds.Listed = bound
		w.at(at, pod.Name, history.AgentChange{Agent: history.Agent{UUID: "agent-uuid-1", Host: pod.Name, Pod: pod}, State: history.AgentListed})
	}
}

// unroute refuses the sessions to an agent that are due then, because no proxy knows a way to it.
func unroute(i int, from, to time.Duration) func(*world) {
	return func(w *world) {
		w.sessions(func(s *history.Session) {
			if s.Agent.Pod == agent(i) && s.Due >= from && s.Due < to {
				s.Class, s.Open, s.Failed, s.Cut, s.End, s.Recorded = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, s.Due+sec, false
			}
		})
	}
}

// recordedTwice has events more than once in a session's recording.
func recordedTwice(id string) func(*world) {
	return func(w *world) {
		w.recordings(func(r *history.Recording) {
			if r.Session == id {
				r.Repeated = 2
			}
		})
	}
}
