package watch

import (
	"slices"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
)

// TestRecoveredAsTheChecksSay plays runs to a State and asks when it has recovered: as soon as the checks say,
// seen from the end of the ten good seconds, and not before.
func TestRecoveredAsTheChecksSay(t *testing.T) {
	under := runtest.RolloutUnderFire(runtest.Config{Seed: 1, Rate: 5})
	for _, row := range []struct {
		why       string
		events    []history.Event
		recovered bool
		after     float64 // seconds after the last change, by the checks
	}{
		{"nothing is wrong any more when the last change is over", under, true, 0},
		{"canaries of one proxy fail for some more seconds", spoil(under, 12*time.Second, false), true, 10},
		{"opens are slow for some more seconds", spoil(under, 9*time.Second, true), true, 4},
		{"canaries fail to the end", spoil(under, time.Hour, false), false, 0},
	} {
		t.Run(row.why, func(t *testing.T) {
			want, err := checks.Measure(runtest.Expect(), runtest.Source(row.events)).Data().Recovery()
			if err != nil {
				t.Fatal(err)
			}
			if want.Recovered != row.recovered || row.recovered && want.Seconds < row.after {
				t.Fatalf("the row is not what it says: %+v", want)
			}
			s := NewState(&played{})
			at := playUntilRecovered(row.events, s)
			t.Logf("by the checks: %v, %.1f s after %s; live: at %s", want.Recovered, want.Seconds, s.recovery.over, at)
			seen := s.recovery.over + time.Duration(want.Seconds*float64(time.Second)) + 10*time.Second
			switch {
			case !want.Recovered && at >= 0:
				t.Errorf("recovered at %s, the checks say never", at)
			case want.Recovered && (at < seen-time.Second || at > seen+3*time.Second):
				t.Errorf("recovered at %s, by the checks at %s", at, seen)
			}
		})
	}
}

// spoil makes a run bad for so long after its last change: canaries through one proxy fail, or opens are slow.
func spoil(events []history.Event, long time.Duration, slow bool) []history.Event {
	s := NewState(&played{})
	playUntilRecovered(events, s)
	from, uid := s.recovery.over, ""
	out := slices.Clone(events)
	within := func(t time.Duration) bool { return t >= from && t <= from+long }
	for i, e := range out {
		switch d := e.Data.(type) {
		case history.Probe:
			if uid == "" && within(e.At) {
				uid = d.Pod.UID
			}
			if !slow && within(e.At) && d.Pod.UID == uid {
				d.Error, d.Failed = "refused", history.PhaseConnect
			}
			out[i].Data = d
		case history.Session:
			if slow && within(d.Due) && d.Open > 0 {
				d.Open += 400 * time.Millisecond
			}
			out[i].Data = d
		case history.SessionOpened:
			if slow && within(d.Due) {
				d.Open += 400 * time.Millisecond
			}
			out[i].Data = d
		}
	}
	return out
}

// played is a history whose clock stands where its last event was.
type played struct{ now time.Duration }

func (p *played) Record(e history.Event)        { p.now = max(p.now, e.At) }
func (p *played) Now() time.Duration            { return p.now }
func (p *played) Since(time.Time) time.Duration { return p.now }

// playUntilRecovered gives the moment at which the state first says that it has recovered from the last change; -1: never.
func playUntilRecovered(events []history.Event, s *State) time.Duration {
	at := time.Duration(-1)
	for _, e := range events {
		s.Record(e)
		ok, err := s.Recovered()
		switch {
		case len(s.recovery.open) > 0:
			at = -1
		case err == nil && ok && at < 0 && s.recovery.over > 0:
			at = s.Now()
		}
	}
	return at
}

func TestRecoveredNeedsToKnowWhatWasDesired(t *testing.T) {
	s := NewState(&played{})
	if _, err := s.Recovered(); err == nil {
		t.Error("recovered to what?")
	}
}

// TestWhenAFaultIsOver has a row for each kind of fault: when the run waits for recovery no longer than that.
func TestWhenAFaultIsOver(t *testing.T) {
	inject := func(name string) history.Payload {
		return history.Fault{ID: "f", Entry: "f", Name: name, Stage: history.FaultInject}
	}
	stage := func(s history.FaultStage, name string) history.Payload {
		return history.Fault{ID: "f", Entry: "f", Name: name, Stage: s}
	}
	entry := history.Entry{Name: "f", State: history.EntryEnded}
	rollout := func(verb string, s history.RolloutStage) history.Payload {
		return history.Rollout{ID: "r", Verb: verb, Stage: s}
	}
	for _, row := range []struct {
		why    string
		events []history.Payload // one a second
		open   bool
		over   time.Duration
	}{
		{"a deletion is over with its entry", []history.Payload{inject("podDelete"), stage(history.FaultBit, "podDelete"), entry}, false, 3 * time.Second},
		{"it is not before", []history.Payload{inject("podDelete"), stage(history.FaultHealed, "podDelete")}, true, 0},
		{"a drained node hurts nobody any more", []history.Payload{inject("nodeDrain"), entry, stage(history.FaultHealed, "nodeDrain")}, false, 2 * time.Second},
		{"a pause lasts until it is healed", []history.Payload{inject("nodePause"), entry}, true, 0},
		{"and then it is over", []history.Payload{inject("nodePause"), entry, stage(history.FaultHealed, "nodePause")}, false, 3 * time.Second},
		{"what cannot be healed must not be waited for", []history.Payload{inject("nodePause"), stage(history.FaultNotHealed, "nodePause")}, false, 2 * time.Second},
		{"a fault that was never injected disturbs nobody", []history.Payload{stage(history.FaultPlanned, "nodePause"), stage(history.FaultEmpty, "nodePause")}, false, 0},
		{"a rollout is over at its end", []history.Payload{rollout("upgrade", history.RolloutStart), rollout("upgrade", history.RolloutHelmReturned)}, true, 0},
		{"its end", []history.Payload{rollout("upgrade", history.RolloutStart), rollout("upgrade", history.RolloutEnd)}, false, 2 * time.Second},
		{"an installation changes nothing that was there", []history.Payload{rollout("install", history.RolloutStart)}, false, 0},
		{"two at once are over with the later", []history.Payload{rollout("upgrade", history.RolloutStart), inject("podDelete"), rollout("upgrade", history.RolloutEnd), entry}, false, 4 * time.Second},
	} {
		s := NewState(&played{})
		s.Record(history.Event{Data: history.RunStart{Desired: map[string]int{"proxy": 1}}})
		for i, d := range row.events {
			s.Record(history.Event{At: time.Duration(i+1) * time.Second, Subject: "f", Data: d})
		}
		if open := len(s.recovery.open) > 0; open != row.open || s.recovery.over != row.over {
			t.Errorf("%s: open %v, over %s", row.why, open, s.recovery.over)
		}
	}
}
