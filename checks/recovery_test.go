package checks

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// TestRecoveryWatchAgreesWithJudging feeds the watch what a run's history tells, second by second, and
// compares the moment at which it says recovered with the one that judging finds.
func TestRecoveryWatchAgreesWithJudging(t *testing.T) {
	slow := func(until time.Duration) func(*world) {
		return func(w *world) {
			w.sessions(func(s *history.Session) {
				if s.Due > 31*sec && s.Due < until {
					s.Open = s.Due + 200*time.Millisecond
				}
			})
		}
	}
	for _, tt := range []struct {
		says string
		run  *world
	}{
		{"capacity comes back last", killed()},
		{"latency comes back last", killed(slow(50 * sec))},
		{"never", killed(noReplacement)},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := tt.run.measure(t)
			w := NewRecoveryWatch([]string{"proxy"})
			live := never
			for now := time.Duration(0); now < 89*sec; now += sec {
				feed(w, m, now)
				if now == 30*sec {
					w.Changes(now)
				}
				if now == 31*sec {
					w.ChangesOver(now)
				}
				if live == never && now > 30*sec && w.Recovered(now) {
					live = now - recoveryHold
				}
			}
			judged := m.recovery
			if (live != never) != judged.Recovered {
				t.Fatalf("live %v, judged %+v", live, judged.Recovery)
			}
			// A watch that asks once a second may be up to a second late, and as much for what was short then.
			if d := live - judged.at; judged.Recovered && (d < 0 || d > 2*sec) {
				t.Errorf("live %v, judged %v", live, judged.at)
			}
		})
	}
}

func feed(w *RecoveryWatch, m *Measures, now time.Duration) {
	for _, c := range m.components {
		if n, ok := c.serving.at(now); ok {
			w.Capacity(now, c.name, n, c.desired)
		}
	}
	for _, s := range m.l.sessions {
		if s.open > now-sec && s.open <= now {
			w.Opened("ssh", s.due, s.open-s.due)
		}
	}
}

func TestRecoveryWatchBeforeAnyChange(t *testing.T) {
	w := NewRecoveryWatch([]string{"proxy"})
	if !w.Recovered(5 * sec) {
		t.Error("nothing happened, so nothing has to recover")
	}
	w.Changes(10 * sec)
	w.ChangesOver(11 * sec)
	if w.Recovered(60 * sec) {
		t.Error("nothing is known of the proxies, so nobody can say that they are back")
	}
}

// TestRecoveryAfterScaling: after replicas were changed on purpose the new number is what to come back to.
func TestRecoveryAfterScaling(t *testing.T) {
	m := steady(func(w *world) {
		for _, s := range []struct {
			stage history.RolloutStage
			at    time.Duration
		}{{history.RolloutStart, 30 * sec}, {history.RolloutEnd, 35 * sec}} {
			w.at(s.at, "less", history.Rollout{ID: "less", Entry: "less", Verb: "scale", Stage: s.stage, Component: "proxy"})
			w.events[len(w.events)-1].Outcome = history.OK
		}
		w.at(30*sec, "", history.Replicas{Component: "proxy", Desired: 2, Ready: 2})
		w.drop(func(e history.Event) bool {
			p, ok := e.Data.(history.Probe)
			return ok && p.Pod.Name == "proxy-3" && e.At > 30*sec
		})
	}, podGoes(proxy(3), 30*sec, 34*sec, 30*sec)).measure(t)
	if r, err := m.Data().Recovery(); err != nil || !r.Recovered {
		t.Errorf("recovery %+v, %v", r, err)
	}
	if c, err := m.Data().Capacity("proxy", gates.Window{}); err != nil || c.Desired != 3 {
		t.Errorf("capacity is still judged by what was desired before: %+v, %v", c, err)
	}
}
