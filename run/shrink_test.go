package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/scenarios"
)

// faulty is a plan of a wait and some faults, one after the other.
func faulty(ids ...string) *scenarios.Plan {
	p := &scenarios.Plan{Timeline: []scenarios.Step{{ID: "warmup"}}}
	last := "warmup"
	for _, id := range ids {
		p.Timeline = append(p.Timeline, scenarios.Step{ID: id, Fault: true, Do: &scenarios.Do{Action: "podDelete"},
			Needs: []scenarios.Need{{Step: last, Point: scenarios.Ended}}})
		last = id
	}
	return p
}

// takes is a system that fails when all of some faults come.
func takes(needed ...string) func(context.Context, *scenarios.Plan) (bool, error) {
	return func(_ context.Context, p *scenarios.Plan) (bool, error) {
		has := faultsOf(p)
		return !slices.ContainsFunc(needed, func(id string) bool { return !slices.Contains(has, id) }), nil
	}
}

func TestShrink(t *testing.T) {
	for _, row := range []struct {
		why    string
		plan   []string
		needed []string
		left   []string
		trials int
	}{
		{"one of five is enough", []string{"a", "b", "c", "d", "e"}, []string{"b"}, []string{"b"}, 7},
		{"it takes two together", []string{"a", "b", "c", "d"}, []string{"a", "c"}, []string{"a", "c"}, 8},
		{"it takes all", []string{"a", "b"}, []string{"a", "b"}, []string{"a", "b"}, 4},
		{"it fails without any fault", []string{"a", "b"}, nil, []string{}, 2},
		{"a plan of one fault", []string{"a"}, []string{"a"}, []string{"a"}, 2},
	} {
		t.Run(row.why, func(t *testing.T) {
			var told []string
			got, err := Shrinking{Plan: faulty(row.plan...), Fails: takes(row.needed...), Tell: func(s string) { told = append(told, s) }}.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.left, got.Left); diff != "" || got.Trials != row.trials || len(told) != row.trials {
				t.Errorf("%s%d trials, want %d: %s", diff, got.Trials, row.trials, strings.Join(told, "; "))
			}
			if len(faultsOf(got.Plan)) != len(row.left) || len(got.Plan.Timeline) != len(row.left)+1 {
				t.Errorf("the plan has %v", faultsOf(got.Plan))
			}
		})
	}
}

func TestShrinkStops(t *testing.T) {
	broken := errors.New("no cluster")
	for _, row := range []struct {
		why   string
		fails func(context.Context, *scenarios.Plan) (bool, error)
		want  error
	}{
		{"what does not fail again is not shrunk", func(context.Context, *scenarios.Plan) (bool, error) { return false, nil }, ErrNotAgain},
		{"a trial that could not be made ends the search", func(context.Context, *scenarios.Plan) (bool, error) { return false, broken }, broken},
	} {
		t.Run(row.why, func(t *testing.T) {
			got, err := Shrinking{Plan: faulty("a", "b"), Fails: row.fails}.Do(t.Context())
			if !errors.Is(err, row.want) || got.Trials != 1 || len(got.Left) != 2 {
				t.Errorf("%v after %d trials with %v left", err, got.Trials, got.Left)
			}
		})
	}
}

// TestShrinkFindsTheLeast: whatever set of faults it takes, exactly that set is left.
func TestShrinkFindsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []string{"a", "b", "c", "d", "e", "f"}
		needed := rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID).Draw(t, "needed")
		got, err := Shrinking{Plan: faulty(all...), Fails: takes(needed...)}.Do(context.Background())
		slices.Sort(needed)
		if err != nil || !slices.Equal(needed, got.Left) {
			t.Fatalf("%v: left %v, it takes %v", err, got.Left, needed)
		}
	})
}
