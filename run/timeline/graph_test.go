package timeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// trial is a random timeline with what its actions and conditions will do.
type trial struct {
	steps  []scenarios.Step
	acts   map[string]act
	holds  map[string]time.Duration
	cancel time.Duration // 0: never
}

func drawTrial(t *rapid.T) trial {
	tr := trial{acts: map[string]act{}, holds: map[string]time.Duration{}}
	seconds := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 40).Draw(t, name)) * 100 * time.Millisecond
	}
	var groups []string
	for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
		s := scenarios.Step{ID: fmt.Sprintf("s%d", i), Name: fmt.Sprintf("s%d", i), Async: rapid.Bool().Draw(t, "async")}
		s.Needs = drawNeeds(t, tr.steps, groups, &s, seconds)
		if rapid.IntRange(0, 3).Draw(t, "when") == 0 {
			s.When, s.Within = "when "+s.ID, scenarios.Span(seconds("within")+time.Second)
			s.OrElse = rapid.SampledFrom([]scenarios.OrElse{scenarios.ElseFail, scenarios.ElseSkip, scenarios.ElseInconclusive}).Draw(t, "orElse")
			tr.condition(t, s.When, seconds)
		}
		switch rapid.SampledFrom([]string{"wait", "for", "do", "do", "heal", "group"}).Draw(t, "kind") {
		case "wait":
			s.Wait = &scenarios.Wait{Time: scenarios.Span(seconds("wait"))}
		case "for":
			s.Wait = &scenarios.Wait{For: "for " + s.ID, Within: scenarios.Span(seconds("within") + time.Second), OrElse: scenarios.ElseInconclusive}
			tr.condition(t, s.Wait.For, seconds)
		case "do":
			s.Do = &scenarios.Do{Action: "podDelete"}
			tr.acts[s.Name] = drawAct(t, seconds)
		case "heal":
			s.Do = &scenarios.Do{Action: "heal", Args: scenarios.Args{"of": fmt.Sprintf("s%d", rapid.IntRange(0, i).Draw(t, "of"))}}
		case "group":
			s.Group = scenarios.GroupSequence
			groups = append(groups, s.ID)
		}
		tr.steps = append(tr.steps, s)
	}
	if rapid.IntRange(0, 2).Draw(t, "cancelled") == 0 {
		tr.cancel = seconds("cancel") + 50*time.Millisecond
	}
	return tr
}

// condition may never hold, and may not be known.
func (tr *trial) condition(t *rapid.T, expr string, seconds func(string) time.Duration) {
	switch rapid.IntRange(0, 3).Draw(t, "condition") {
	case 0:
	case 1:
		tr.holds[expr] = time.Hour
	default:
		tr.holds[expr] = seconds("holds")
	}
}

func drawAct(t *rapid.T, seconds func(string) time.Duration) act {
	a := act{takes: seconds("takes"), deaf: rapid.Bool().Draw(t, "deaf")}
	if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
		a.err = errBroken
	}
	return a
}

// drawNeeds makes a step need some of those before it, and its group, if it gets one.
func drawNeeds(t *rapid.T, before []scenarios.Step, groups []string, s *scenarios.Step, seconds func(string) time.Duration) []scenarios.Need {
	needs := []scenarios.Need{{Point: scenarios.Started, Plus: scenarios.Span(seconds("plus"))}}
	if len(groups) > 0 && rapid.Bool().Draw(t, "inside") {
		s.Parent = rapid.SampledFrom(groups).Draw(t, "parent")
		needs = append(needs, scenarios.Need{Step: s.Parent, Point: scenarios.Started})
	}
	if len(before) == 0 {
		return needs
	}
	inside := ancestors(before, s.Parent)
	for range rapid.IntRange(0, 3).Draw(t, "needs") {
		n := scenarios.Need{
			Step:  rapid.SampledFrom(before).Draw(t, "step").ID,
			Point: rapid.SampledFrom([]scenarios.Point{scenarios.Started, scenarios.Ended}).Draw(t, "point"),
			Plus:  scenarios.Span(seconds("plus")),
		}
		if inside[n.Step] {
			n.Point = scenarios.Started // its own groups end after it
		}
		needs = append(needs, n)
	}
	return needs
}

func ancestors(steps []scenarios.Step, id string) map[string]bool {
	out := map[string]bool{}
	for id != "" {
		out[id] = true
		for _, s := range steps {
			if s.ID == id {
				id = s.Parent
				break
			}
		}
	}
	return out
}

// TestAnyTimeline: whatever the graph, its actions and its conditions do, every step ends exactly once, none
// begins before its needs hold or without its group, none begins after the run was cancelled, and all of it
// ends. A deadlock would be seen by the bubble.
func TestAnyTimeline(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawTrial(rt)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tr.cancel > 0 {
				time.AfterFunc(tr.cancel, cancel)
			}
			s := newSink()
			a := &actor{acts: tr.acts, now: s.Now}
			result := Runner{Actor: a, Conditions: since{s.Now, tr.holds}, Record: s}.Run(ctx, tr.steps)
			lives := livesOf(rt, s)
			for i, step := range tr.steps {
				lives.check(rt, tr, step, result.Steps[i])
			}
			if acted := lives.acted(tr.steps); acted != len(a.done) {
				rt.Errorf("%d actions were begun, %d are in the history", len(a.done), acted)
			}
		})
	})
}

// life is what the history says of one step.
type life struct {
	began, ended time.Duration // began: -1 if it never did
	state        history.EntryState
}

type lives map[string]life

func livesOf(rt *rapid.T, s *sink) lives {
	out := lives{}
	for _, e := range s.all {
		l, seen := out[e.Subject]
		if !seen {
			l.began = -1
		}
		if l.state != "" {
			rt.Errorf("%s goes on after its end: %v", e.Subject, e.Data)
		}
		switch state := e.Data.(history.Entry).State; state {
		case history.EntryWaiting:
		case history.EntryStarted:
			if l.began >= 0 {
				rt.Errorf("%s began twice", e.Subject)
			}
			l.began = e.At
		default:
			l.state, l.ended = state, e.At
		}
		out[e.Subject] = l
	}
	return out
}

// point is when a point in a step's life came.
func (l lives) point(n scenarios.Need) time.Duration {
	s := l[n.Step]
	switch {
	case n.Step == "":
		return 0
	case n.Point == scenarios.Started && s.began >= 0:
		return s.began
	}
	return s.ended
}

func (l lives) check(rt *rapid.T, tr trial, s scenarios.Step, r StepResult) {
	is := l[s.ID]
	switch {
	case is.state == "":
		rt.Errorf("%s never ended", s.ID)
	case r.State != is.state:
		rt.Errorf("%s ended %s, its result says %s", s.ID, is.state, r.State)
	case is.state == history.EntryEnded && is.began < 0:
		rt.Errorf("%s ended without having begun", s.ID)
	case is.state == history.EntrySkipped && is.began >= 0:
		rt.Errorf("%s was skipped after it had begun", s.ID)
	}
	if is.began < 0 {
		return
	}
	for _, n := range s.Needs {
		if at := l.point(n) + n.Plus.Duration(); is.began < at {
			rt.Errorf("%s began at %s, its need %v held at %s", s.ID, is.began, n, at)
		}
	}
	if s.Parent != "" && (l[s.Parent].began < 0 || l[s.Parent].ended < is.ended) {
		rt.Errorf("%s is outside of its group %s", s.ID, s.Parent)
	}
	if tr.cancel > 0 && is.began > tr.cancel {
		rt.Errorf("%s began at %s, after the run was cancelled at %s", s.ID, is.began, tr.cancel)
	}
	if s.When != "" && is.began < tr.holds[s.When] {
		rt.Errorf("%s began before its condition held", s.ID)
	}
}

func (l lives) acted(steps []scenarios.Step) (n int) {
	for _, s := range steps {
		if s.Do != nil && l[s.ID].began >= 0 {
			n++
		}
	}
	return n
}
