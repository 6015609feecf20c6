package checks

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// TestRolloutsThatOvertakeEachOther: proxy-1, of the session, is deleted at 34 s.
func TestRolloutsThatOvertakeEachOther(t *testing.T) {
	rollout := func(id, hash string, from, to time.Duration) func(*world) {
		return func(w *world) {
			for _, s := range []struct {
				stage history.RolloutStage
				at    time.Duration
			}{{history.RolloutStart, from}, {history.RolloutEnd, to}} {
				w.at(s.at, id, history.Rollout{ID: id, Entry: id, Verb: "upgrade", Stage: s.stage, Component: "proxy", Hash: hash})
				w.events[len(w.events)-1].Outcome = history.OK
			}
		}
	}
	wants := func(at time.Duration, revision string) func(*world) {
		return func(w *world) {
			w.at(at, "", history.Replicas{Component: "proxy", Desired: 3, Ready: 3, Revision: revision})
		}
	}
	goes := podGoes(proxy(1), 34*sec, 35*sec, 30*sec)
	for _, tt := range []struct {
		says      string
		mods      []func(*world)
		ambiguous bool
		text      string
	}{
		{"the rollout that brought it was rolled back", []func(*world){loses(asIs), goes, rollout("hasty", "old", 15*sec, 60*sec), wants(16*sec, "old"), wants(33*sec, "before")}, false, "by rollout hasty"},
		{"the rollout that brought it goes on", []func(*world){loses(asIs), goes, rollout("hasty", "old", 15*sec, 60*sec), wants(16*sec, "old")}, false, "by itself"},
		{"it was rolled back, and nobody told what was wanted", []func(*world){loses(asIs), goes, rollout("hasty", "old", 15*sec, 60*sec)}, false, "by itself"},
		{"one that was overtaken by a rollback", []func(*world){loses(asIs), goes, rollout("onward", "new", 15*sec, 60*sec), rollout("back", "before", 30*sec, 60*sec), wants(16*sec, "new"), wants(31*sec, "before")}, false, "by rollout back"},
		{"one that was overtaken after the pod had gone", []func(*world){loses(asIs), goes, rollout("onward", "new", 15*sec, 60*sec), rollout("back", "before", 30*sec, 60*sec), wants(16*sec, "new"), wants(38*sec, "before")}, false, "by rollout onward"},
		{"nobody told what was wanted", []func(*world){loses(asIs), goes, rollout("onward", "new", 15*sec, 60*sec), rollout("back", "before", 30*sec, 60*sec)}, true, "by rollout onward or rollout back"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			check(t, steady(tt.mods...).measure(t), true, tt.ambiguous, "", tt.text)
		})
	}
}
