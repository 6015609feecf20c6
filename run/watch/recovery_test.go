package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// TestRecoveredAsTheChecksSay plays the histories of runs to a State, and asks when it has recovered: at no time
// may it say so before the checks do.
func TestRecoveredAsTheChecksSay(t *testing.T) {
	runs, err := filepath.Glob("../../checks/testdata/judged/*/history.jsonl.zst")
	if err != nil || len(runs) == 0 {
		t.Fatal("no runs to play", err)
	}
	compared := 0
	for _, path := range runs {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			want, err := measured(t, path).Recovery()
			if err != nil {
				t.Fatal(err)
			}
			clock := &played{}
			s := NewState(clock)
			at := playUntilRecovered(t, path, clock, s)
			t.Logf("by the checks: recovered %v after %.1f s from %s on; live: at %s", want.Recovered, want.Seconds, s.recovery.over, at)
			if !want.Recovered {
				if at >= 0 {
					t.Errorf("recovered at %s, the checks say never", at)
				}
				return
			}
			compared++
			// The checks find the begin of ten good seconds, the live watch can only see their end.
			seen := s.recovery.over + time.Duration(want.Seconds*float64(time.Second)) + 10*time.Second
			if d := at - seen; d < -time.Second || d > 3*time.Second {
				t.Errorf("recovered at %s, by the checks at %s", at, seen)
			}
		})
	}
	if compared == 0 {
		t.Error("in none of the runs anything recovered")
	}
}

func measured(t *testing.T, path string) gates.Data {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return checks.Measure(checks.Expect{}, history.NewReader(f)).Data()
}

// played is a history whose clock stands where its last event was.
type played struct{ now time.Duration }

func (p *played) Record(e history.Event)        { p.now = max(p.now, e.At) }
func (p *played) Now() time.Duration            { return p.now }
func (p *played) Since(time.Time) time.Duration { return p.now }

// playUntilRecovered gives the moment at which the state first says that it has recovered from the last change; -1: never.
func playUntilRecovered(t *testing.T, path string, clock *played, s *State) time.Duration {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := time.Duration(-1)
	for e := range history.NewReader(f).Events() {
		s.Record(e)
		ok, err := s.Recovered()
		switch {
		case len(s.recovery.open) > 0:
			at = -1
		case err == nil && ok && at < 0 && s.recovery.over > 0:
			at = clock.now
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
