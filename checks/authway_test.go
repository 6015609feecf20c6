package checks

import (
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
	other := podGoes(proxy(2), 27*sec, 29*sec, 6*sec)
	for _, tt := range []struct {
		says  string
		mods  []func(*world)
		found bool
		by    string
		text  string
	}{
		{"another proxy ended, and its agent said that it had lost the auth", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, upgrade(15*sec, 60*sec, "new")},
			true, "rollout up", "ambiguous: its agent had lost the auth and may have reached it through proxy-2 deleted at 27s by rollout up"},
		{"as the real one says it", []func(*world){refusedFor(`failed to create recorder: connection error: desc = "transport: Error while dialing dial tcp"`), lastOpened(27 * sec), other},
			true, "", "ambiguous: its agent had lost the auth"},
		{"the agent had reached the auth since the other proxy ended", []func(*world){refusedFor(gone), other}, false, "", "nothing explains it"},
		{"another proxy ended, and the agent refused for another reason", []func(*world){refusedFor("access denied"), lastOpened(27 * sec), other}, false, "", "nothing explains it"},
		{"nothing ended", []func(*world){refusedFor(gone), lastOpened(27 * sec)}, false, "", "nothing explains it"},
		{"the other proxy was told to end, and had not yet", []func(*world){refusedFor(gone), lastOpened(27 * sec), podGoes(proxy(2), 27*sec, 60*sec, 60*sec)}, false, "", "nothing explains it"},
		{"the other proxy was cut off by a fault", []func(*world){refusedFor(gone), lastOpened(27 * sec), faultOn("cut", "partition", 28*sec, 40*sec, onPod(proxy(2)))},
			true, "fault cut", "fault cut (partition) acted on proxy-2"},
		{"two other proxies ended", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, podGoes(proxy(3), 28*sec, 29*sec, 0)}, true, "", "; or its agent had lost the auth and may have reached it through proxy-3 killed at 28s"},
		{"an auth ended as well", []func(*world){refusedFor(gone), lastOpened(27 * sec), other, podGoes(ref("auth", "auth-1"), 28*sec, 29*sec, 0)}, true, "", "it depends on auth: auth-1 killed at 28s by itself; or its agent had lost"},
		{"it waited for its shell, and its agent has opened nothing since the other proxy ended", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 40*sec
		}), lastOpened(27 * sec), other}, true, "", "its agent waited for the auth and may have reached it through proxy-2"},
		{"it waited for its shell, and its agent opened others meanwhile", []func(*world){loses(func(s *history.Session) {
			s.Class, s.Open, s.Failed, s.Cut, s.LastHeard, s.End = history.Refused, 0, history.PhaseShell, history.CutTimeout, 0, 40*sec
		}), other}, false, "", "nothing explains it"},
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
