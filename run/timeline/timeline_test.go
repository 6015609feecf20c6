package timeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

var errBroken = errors.New("broken")

// TestTimelines has one row for each rule: how a timeline is written, and every transition that comes of it.
func TestTimelines(t *testing.T) {
	for _, row := range []struct {
		why      string
		timeline string
		acts     map[string]act
		holds    map[string]time.Duration
		cancel   time.Duration // 0: never
		want     string
	}{
		{
			why: "entries follow each other",
			timeline: `
    - {name: a, wait: 3s}
    - {name: b, do: {podDelete: {select: {component: proxy}}}}
    - {name: c, wait: 1s}`,
			acts: map[string]act{"b": {takes: 2 * time.Second}},
			want: `
0s a started
3s a ended
3s b started
5s b ended
5s c started
6s c ended`,
		},
		{
			why: "an async entry is not waited for by the next, but by who names it, and by the end",
			timeline: `
    - {name: a, async: true, do: {helmUpgrade: {to: target}}}
    - {name: b, wait: 1s}
    - {name: c, after: a, delay: 2s, wait: 1s}
    - {name: d, after: b, wait: 1s}`,
			acts: map[string]act{"a": {takes: 4 * time.Second}},
			want: `
0s a started
0s b started
1s b ended
1s d started
2s d ended
4s a ended
6s c started
7s c ended`,
		},
		{
			why: "an entry with at waits for the time alone",
			timeline: `
    - {name: a, wait: 5s}
    - {name: b, at: 2s, wait: 1s}`,
			want: `
0s a started
2s b started
3s b ended
5s a ended`,
		},
		{
			why: "a condition is asked five times a second, and the entry begins when it holds",
			timeline: `
    - {name: a, when: sessions.held > 5, within: 10s, do: {podDelete: {select: {component: proxy}}}}`,
			holds: map[string]time.Duration{"sessions.held > 5": 1100 * time.Millisecond},
			want: `
0s a waiting
1.2s a started: sessions.held > 5 at 1.2s
1.2s a ended`,
		},
		{
			why: "a condition that holds already makes nobody wait",
			timeline: `
    - {name: a, wait: 1s}
    - {name: b, when: sessions.held > 5, do: {podDelete: {select: {component: proxy}}}}`,
			holds: map[string]time.Duration{"sessions.held > 5": 0},
			want: `
0s a started
1s a ended
1s b waiting
1s b started: sessions.held > 5 at 1s
1s b ended`,
		},
		{
			why: "a condition that is missed ends the entry without its action, and the next goes on",
			timeline: `
    - {name: a, when: sessions.held > 5, within: 2s, orElse: fail, do: {podDelete: {select: {component: proxy}}}}
    - {name: b, wait: 1s}`,
			holds: map[string]time.Duration{"sessions.held > 5": time.Hour},
			want: `
0s a waiting
2s a missed else fail: did not hold within 2s; at last: sessions.held > 5 at 2s
2s b started
3s b ended`,
		},
		{
			why: "a condition nobody can answer is missed, and says why",
			timeline: `
    - {name: a, when: sessions.held > 5, within: 1s, do: {podDelete: {select: {component: proxy}}}}`,
			want: `
0s a waiting
1s a missed else inconclusive: did not hold within 1s; at last: nobody knows sessions.held > 5`,
		},
		{
			why: "a wait ends when its condition holds, or is missed as its own orElse says",
			timeline: `
    - {name: a, wait: {for: recovered(), within: 5s}}
    - {name: b, wait: {for: elapsed > duration("1h"), within: 1s, orElse: skip}}`,
			holds: map[string]time.Duration{"recovered()": 700 * time.Millisecond, `elapsed > duration("1h")`: time.Hour},
			want: `
0s a started
800ms a ended: recovered() at 800ms
800ms b started
1.8s b missed else skip: did not hold within 1s; at last: elapsed > duration("1h") at 1.8s`,
		},
		{
			why: "after a failure the rest runs all the same, so that what heals runs too",
			timeline: `
    - {name: drain, do: {nodeDrain: {select: {node: {running: proxy}}}}}
    - {name: a, do: {podDelete: {select: {component: proxy}}}}
    - {name: heal, do: {heal: {of: drain}}}`,
			acts: map[string]act{"a": {takes: time.Second, err: errBroken}},
			want: `
0s drain started
0s drain ended
0s a started
1s a ended failed: broken
1s heal started
1s heal ended`,
		},
		{
			why: "what failed or never began has nothing to heal",
			timeline: `
    - {name: a, do: {nodeDrain: {select: {node: {running: proxy}}}}}
    - {name: b, when: recovered(), within: 1s, orElse: skip, do: {nodePause: {select: {node: {any: true}}}}}
    - {name: c, do: {heal: {of: a}}}
    - {name: d, do: {heal: {of: b}}}`,
			acts:  map[string]act{"a": {err: errBroken}},
			holds: map[string]time.Duration{"recovered()": time.Hour},
			want: `
0s a started
0s a ended failed: broken
0s b waiting
1s b missed else skip: did not hold within 1s; at last: recovered() at 1s
1s c skipped: a failed, so there is nothing to end
1s d skipped: b was missed, so there is nothing to end`,
		},
		{
			why: "a group ends with the last of what it contains, and fails if some of that did",
			timeline: `
    - name: both
      parallel:
        - {name: a, wait: 1s}
        - {name: b, do: {podDelete: {select: {component: proxy}}}}
    - {name: c, wait: 1s}`,
			acts: map[string]act{"b": {takes: 2 * time.Second, err: errBroken}},
			want: `
0s both started
0s a started
0s b started
1s a ended
2s b ended failed: broken
2s both ended failed: failed in it: b
2s c started
3s c ended`,
		},
		{
			why: "what a missed group contains is skipped for the same reason, groups in it too",
			timeline: `
    - name: group
      when: recovered()
      within: 1s
      orElse: skip
      sequence:
        - {name: a, wait: 1s}
        - {name: inner, parallel: [{name: b, wait: 1s}]}
    - {name: c, wait: 1s}`,
			holds: map[string]time.Duration{"recovered()": time.Hour},
			want: `
0s group waiting
1s group missed else skip: did not hold within 1s; at last: recovered() at 1s
1s a skipped else skip: the condition of group was missed
1s inner skipped else skip: the condition of group was missed
1s b skipped else skip: the condition of group was missed
1s c started
2s c ended`,
		},
		{
			why: "a repetition begins its rounds every so often, and never before the last has ended",
			timeline: `
    - name: often
      repeat:
        times: 3
        every: 3s
        sequence: [{name: a, do: {podDelete: {select: {component: proxy}}}}]`,
			acts: map[string]act{"a": {takes: 4 * time.Second}},
			want: `
0s often started
0s a#1 started
4s a#1 ended
4s a#2 started
8s a#2 ended
8s a#3 started
12s a#3 ended
12s often ended`,
		},
		{
			why: "when the run is cancelled nothing begins any more, actions are stopped, and all is written down",
			timeline: `
    - {name: a, async: true, do: {helmUpgrade: {to: target}}}
    - {name: b, async: true, wait: 10s}
    - {name: group, sequence: [{name: c, when: recovered(), wait: 1s}, {name: d, wait: 1s}]}
    - {name: e, wait: 1s}`,
			acts:   map[string]act{"a": {takes: time.Hour}},
			holds:  map[string]time.Duration{"recovered()": time.Hour},
			cancel: 2500 * time.Millisecond,
			want: `
0s a started
0s b started
0s group started
0s c waiting
2.5s b ended unknown: cancelled
2.5s c skipped else inconclusive: the run was cancelled before
2.5s d skipped: the run was cancelled before
2.5s e skipped: the run was cancelled before
2.5s group ended
2.5s a ended unknown: cancelled: context canceled`,
		},
		{
			why: "an action that does not stop at once is waited for",
			timeline: `
    - {name: a, do: {podDelete: {select: {component: proxy}}}}
    - {name: b, wait: 1s}`,
			acts:   map[string]act{"a": {takes: 3 * time.Second, deaf: true}},
			cancel: time.Second,
			want: `
0s a started
1s b skipped: the run was cancelled before
3s a ended`,
		},
	} {
		t.Run(row.why, func(t *testing.T) {
			plan := steps(t, row.timeline)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, cancel)
				}
				s := newSink()
				a := &actor{acts: row.acts, now: s.Now}
				r := Runner{Actor: a, Conditions: since{s.Now, row.holds}, Record: s}.Run(ctx, plan)
				if diff := cmp.Diff(strings.TrimSpace(row.want), strings.TrimSpace(s.lines())); diff != "" {
					t.Error(diff)
				}
				if r.Cancelled != (row.cancel > 0) {
					t.Errorf("cancelled: %v", r.Cancelled)
				}
			})
		})
	}
}

// TestDueTimes: what is due is due when its needs hold, not when somebody gets round to it; actions are told.
func TestDueTimes(t *testing.T) {
	plan := steps(t, `
    - {name: a, wait: 1s}
    - {name: b, delay: 500ms, do: {podDelete: {select: {component: proxy}}}}
    - {name: c, when: recovered(), do: {podDelete: {select: {component: proxy}}}}`)
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		time.Sleep(10 * time.Second) // the run is older than its timeline
		a := &actor{now: s.Now}
		r := Runner{Actor: a, Conditions: since{s.Now, map[string]time.Duration{"recovered()": 12 * time.Second}}, Record: s}.Run(t.Context(), plan)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"11.5s b due 11.5s", "12.1s c due 12.1s"}, a.done); diff != "" {
			t.Error(diff)
		}
		due := map[string]time.Duration{}
		for _, e := range s.all {
			due[e.Subject+" "+string(e.Data.(history.Entry).State)] = e.Due
		}
		want := map[string]time.Duration{
			"a started": 10 * time.Second, "a ended": 11 * time.Second, "b started": 11500 * time.Millisecond, "b ended": 0,
			"c waiting": 11500 * time.Millisecond, "c started": 12100 * time.Millisecond, "c ended": 0,
		}
		if diff := cmp.Diff(want, due); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatAnEntrySays(t *testing.T) {
	plan := steps(t, `
    - name: often
      repeat: {times: 2, sequence: [{name: a, when: recovered(), do: {podDelete: {select: {component: proxy}}}}]}`)
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		Runner{Actor: &actor{now: s.Now}, Conditions: since{s.Now, map[string]time.Duration{"recovered()": 0}}, Record: s}.Run(t.Context(), plan)
		want := history.Entry{
			Name: "a", Index: 2, Parent: "often", Round: 2, State: history.EntryStarted, Action: "podDelete", When: "recovered()", Detail: "recovered() at 0s",
		}
		for _, e := range s.all {
			if d := e.Data.(history.Entry); e.Subject == "a#2" && d.State == history.EntryStarted {
				if diff := cmp.Diff(want, d); diff != "" {
					t.Error(diff)
				}
				return
			}
		}
		t.Error("a#2 never started")
	})
}

func TestResultErr(t *testing.T) {
	r := Result{Steps: []StepResult{
		{ID: "a", State: history.EntryEnded},
		{ID: "b", State: history.EntryEnded, Err: errBroken},
		{ID: "c", State: history.EntryMissed, OrElse: scenarios.ElseFail},
		{ID: "d", State: history.EntryMissed, OrElse: scenarios.ElseSkip},
		{ID: "e", State: history.EntrySkipped, OrElse: scenarios.ElseSkip},
	}}
	err := r.Err()
	if !errors.Is(err, errBroken) || err.Error() != "b: broken\nc: its condition did not hold in time (fail)" {
		t.Error(err)
	}
	r.Steps = r.Steps[3:]
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestABrokenPlanEnds: a step that waits for one that is not there is skipped, once nothing else can happen.
func TestABrokenPlanEnds(t *testing.T) {
	plan := []scenarios.Step{
		{ID: "a", Name: "a", Needs: []scenarios.Need{{Point: scenarios.Started}}, Wait: &scenarios.Wait{Time: scenarios.Span(time.Second)}},
		{ID: "b", Name: "b", Needs: []scenarios.Need{{Step: "nowhere", Point: scenarios.Ended}}, Wait: &scenarios.Wait{}},
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		Runner{Actor: &actor{}, Conditions: since{now: s.Now}, Record: s}.Run(t.Context(), plan)
		want := "0s a started\n1s a ended\n1s b skipped: what it waits for never comes\n"
		if diff := cmp.Diff(want, s.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// world is a fixed gates.World.
type world struct{ gates.World }

func (world) Elapsed() time.Duration { return 40 * time.Second }
func (world) Sessions() (gates.SessionsView, error) {
	return gates.SessionsView{Held: 7}, nil
}

func TestCompile(t *testing.T) {
	plan := []scenarios.Step{
		{ID: "a", When: "sessions.held > 5"},
		{ID: "b", Wait: &scenarios.Wait{For: "sessions.hold > 5"}},
		{ID: "c", When: "sessions.held + 1"},
	}
	if _, err := Compile(plan, gates.Names{}, world{}); err == nil || !strings.Contains(err.Error(), "step b") || !strings.Contains(err.Error(), "step c") {
		t.Errorf("not every wrong condition was named: %v", err)
	}
	c, err := Compile(plan[:1], gates.Names{}, world{})
	if err != nil {
		t.Fatal(err)
	}
	holds, value, err := c.Holds("sessions.held > 5")
	if !holds || err != nil || !strings.Contains(value, "7") {
		t.Error(holds, value, err)
	}
	if _, _, err := c.Holds("recovered()"); err == nil {
		t.Error("a condition that was not compiled was answered")
	}
}
