package checks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/history"
)

func TestCosts(t *testing.T) {
	killed := []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 0), faultOn("kill", "podDelete", 34*sec, 40*sec, onPod(proxy(1)))}
	replaced := []func(*world){podGoes(proxy(1), 34*sec, 35*sec, 30*sec), upgrade(15*sec, 60*sec, "new")}
	node := history.Target{Kind: "node", Name: "node-1"}
	for _, tt := range []struct {
		says           string
		mods           []func(*world)
		fault, upgrade Cost
	}{
		{"a session dropped by the fault", append([]func(*world){loses(asIs)}, killed...), Cost{Dropped: 1}, Cost{}},
		{"a session stalled by the fault", append([]func(*world){loses(func(s *history.Session) { s.Class = history.Stalled })}, killed...), Cost{Stalled: 1}, Cost{}},
		{"nothing lost, though it was in force", killed, Cost{}, Cost{}},
		{"a session dropped by the rollout", append([]func(*world){loses(asIs)}, replaced...), Cost{}, Cost{Dropped: 1}},
		{"either may have done it", append([]func(*world){loses(asIs), faultOn("kill", "nodeDrain", 33*sec, 80*sec, node)}, replaced...), Cost{Shared: 1}, Cost{Shared: 1}},
		{"a session lost without a cause, while it was in force", []func(*world){loses(asIs), faultOn("kill", "podDelete", 30*sec, 40*sec, onPod(proxy(2)))}, Cost{}, Cost{}},
		{"the fault took one pod, and another that the session went through ended by itself", append([]func(*world){
			loses(func(s *history.Session) { s.Cut = history.CutKeepalive }), podGoes(agent(0), 34*sec, 35*sec, 0)}, killed...), Cost{Shared: 1}, Cost{}},
		{"recordings", append([]func(*world){damage("terminals/151", history.RecTruncated), damage("terminals/153", history.RecMissing), func(w *world) {
			w.recordings(func(r *history.Recording) { r.Mode, r.Holder = "proxy", proxy(1) })
		}}, killed...), Cost{Recordings: 2, Missing: 1}, Cost{}},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := steady(tt.mods...).measure(t)
			for _, f := range m.Faults {
				if f.Cost.Least["proxy"].Desired != 3 {
					t.Errorf("least pods %+v", f.Cost.Least)
				}
				f.Cost.Least = nil
				if diff := cmp.Diff(tt.fault, f.Cost); diff != "" {
					t.Errorf("fault: %s", diff)
				}
			}
			for _, r := range m.Rollouts {
				r.Cost.Least = nil
				if diff := cmp.Diff(tt.upgrade, r.Cost); diff != "" {
					t.Errorf("rollout: %s", diff)
				}
			}
			if len(m.Faults)+len(m.Rollouts) == 0 {
				t.Error("nothing was charged")
			}
		})
	}
}
