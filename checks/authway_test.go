package checks

import (
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// TestAttributionToTheWayToAuth: terminals/150, due at 30 s through proxy-1 to agent-0, is refused by the agent.
func TestAttributionToTheWayToAuth(t *testing.T) {
	const gone = "session terminating: open recording stream: rpc error: code = Unavailable desc = error reading from server: EOF"
	refusedFor := func(reason string) func(*world) {
		return loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.Reason, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutDenied, reason, 0, 31*sec
		})
	}
	// lastOpened: agent-0 opens no session after a moment.
	lastOpened := func(at time.Duration) func(*world) {
		return func(w *world) {
			w.sessions(func(s *history.Session) {
				if s.Agent.UUID == "agent-uuid-0" && s.Open > at {
					s.Agent = history.Agent{UUID: "another", Pod: ref("agent", "agent-9")}
				}
			})
		}
	}
	unlisted := loses(func(s *history.Session) {
		s.Class, s.Open, s.Failed, s.Cut, s.Reason, s.LastHeard, s.End = history.Refused, 0, history.PhaseRoute, history.CutUnrouted, "unable to locate node matching UUID-like target", 0, 31*sec
	})
	other := podGoes(proxy(2), 27*sec, 29*sec, 6*sec)
	for _, tt := range []struct {
		says  string
		mods  []func(*world)
		found bool
		by    string
		text  string
	}{
		{"another proxy ended, and its agent said that it had lost the auth", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, upgrade(15*sec, 60*sec, "new")},
			true, "rollout up", "ambiguous: its agent had lost its auth, and its way there may have led through proxy-2 deleted at 27s by rollout up"},
		{"as the real one says it", []func(*world){refusedFor(`failed to create recorder: connection error: desc = "transport: Error while dialing dial tcp"`), lastOpened(27 * sec), other},
			true, "", "ambiguous: its agent had lost its auth"},
		{"the agent had reached the auth since the other proxy ended", []func(*world){refusedFor(gone), other}, false, "", "nothing explains it"},
		{"another proxy ended, and the agent refused for another reason", []func(*world){refusedFor("access denied"), lastOpened(27 * sec), other}, false, "", "nothing explains it"},
		{"nothing ended", []func(*world){refusedFor(gone), lastOpened(27 * sec)}, false, "", "nothing explains it"},
		{"the other proxy was told to end, and had not yet", []func(*world){refusedFor(gone), lastOpened(27 * sec), podGoes(proxy(2), 27*sec, 60*sec, 60*sec)}, false, "", "nothing explains it"},
		{"the other proxy was cut off by a fault", []func(*world){refusedFor(gone), lastOpened(27 * sec), faultOn("cut", "partition", 28*sec, 40*sec, onPod(proxy(2)))},
			true, "fault cut", "fault cut (partition) acted on proxy-2"},
		{"two other proxies ended", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, podGoes(proxy(3), 28*sec, 29*sec, 0)}, true, "", "; or its agent had lost its auth, and its way there may have led through proxy-3 killed at 28s"},
		{"an auth ended as well", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, podGoes(ref("auth", "auth-1"), 28*sec, 29*sec, 0)}, true, "", "it depends on auth: auth-1 killed at 28s by itself; or its agent had lost"},
		{"it waited for its shell, and its agent has opened nothing since the other proxy ended", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 40*sec
		}), lastOpened(27 * sec), other}, true, "", "its agent waited for its auth, and its way there may have led through proxy-2"},
		{"it waited for its shell, and its agent opened others meanwhile", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 40*sec
		}), other}, false, "", "nothing explains it"},
		{"the proxy knew its agent no more, since another proxy ended", []func(*world){unlisted, lastOpened(27 * sec), other}, true, "", "its agent was not registered any more, and its way there may have led through proxy-2"},
		{"the proxy knew its agent no more, which was last listed for so long as to have announced itself before another proxy ended", []func(*world){unlisted, other}, true, "", "its agent was not registered any more"},
		{"the proxy knew its agent no more, and was in trouble itself shortly before", []func(*world){unlisted, lastOpened(20 * sec), faultOn("narrow", "bandwidth", 21*sec, 24*sec, onPod(proxy(1)))},
			true, "fault narrow", "its agent was not registered any more, and its way there may have led through fault narrow (bandwidth) acted on proxy-1"},
		{"it was listed for less", []func(*world){unlisted, other, func(w *world) { w.start.Bounds.Listed = sec }}, false, "", "nothing explains it"},
		{"the proxy knew its agent no more, and nothing ended", []func(*world){unlisted, lastOpened(27 * sec)}, false, "", "nothing explains it"},
		{"the proxy had no tunnel to its agent, which another proxy's end does not explain", []func(*world){unlisted, loses(func(s *history.Session) { s.Reason = "no tunnel connection found" }), lastOpened(27 * sec), other}, false, "", "nothing explains it"},
		{"its own proxy ended, which is on its path for sure", []func(*world){loses(asIs), lastOpened(27 * sec), other, podGoes(proxy(1), 34*sec, 35*sec, 0)}, true, "", "proxy-1 killed"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := steady(tt.mods...).measure(t)
			own := tt.text == "proxy-1 killed"
			check(t, m, tt.found, tt.found && !own, tt.by, tt.text)
			for _, r := range m.Rollouts {
				if r.Cost.Sessions() > 0 {
					t.Errorf("the rollout is charged for what it may have done: %+v", r.Cost)
				}
			}
		})
	}
}

// TestRecordingsOnTheirWayToAuth: an agent of mode node-sync sends what it records to the auth while the session lasts.
func TestRecordingsOnTheirWayToAuth(t *testing.T) {
	for _, tt := range []struct {
		says, mode string
		mods       []func(*world)
		want       string
	}{
		{"another proxy ended while the session lasted", "node-sync", []func(*world){podGoes(proxy(2), 35*sec, 36*sec, 6*sec)}, "ambiguous: its agent sent it to the auth, and may have done so through proxy-2 deleted at 35s"},
		{"another proxy ended after the session", "node-sync", []func(*world){podGoes(proxy(2), 80*sec, 81*sec, 6*sec)}, "nothing explains it"},
		{"another proxy ended, and what is recorded waits on the agent's disk", "node", []func(*world){podGoes(proxy(2), 35*sec, 36*sec, 6*sec)}, "nothing explains it"},
		{"its own proxy ended", "node-sync", []func(*world){podGoes(proxy(1), 35*sec, 36*sec, 6*sec)}, "proxy-1 deleted at 35s"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := steady(append(tt.mods, damage("terminals/150", history.RecGap), func(w *world) {
				w.recordings(func(r *history.Recording) { r.Mode = tt.mode })
				w.sessions(func(s *history.Session) {
					if s.ID == "terminals/150" {
						s.End = 40 * sec
					}
				})
			})...).measure(t)
			list, n := m.LostRecordings(2)
			if n != 1 || !strings.Contains(list[0].Cause.Text, tt.want) {
				t.Errorf("%d lost, %+v, want %q", n, list, tt.want)
			}
		})
	}
}
