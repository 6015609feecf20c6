package scenarios

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func stream(legs ...Leg) StreamPlan {
	s := Stream{Name: "s", Mix: []Weighted{{Weight: 1, Session: Session{Length: Always(time.Minute)}}}}
	s.Arrival.Open = &Open{Distribution: "constant", Legs: legs}
	return newStreamPlan(s, 1)
}

// until collects the due times before an end.
func until(p StreamPlan, end time.Duration) []time.Duration {
	var dues []time.Duration
	for _, due := range p.Arrivals() {
		if due >= end {
			break
		}
		dues = append(dues, due)
	}
	return dues
}

func TestConstantArrivalsComeWhenTheAreaUnderTheRateIsWhole(t *testing.T) {
	for _, row := range []struct {
		name string
		legs []Leg
		want []float64 // seconds
	}{
		{"an even rate", []Leg{{From: 2, To: 2}}, []float64{0.5, 1, 1.5, 2, 2.5}},
		{"a rate that doubles between steps", []Leg{{From: 1, To: 1, For: Span(2 * time.Second)}, {From: 2, To: 2}}, []float64{1, 2, 2.5, 3, 3.5}},
		{"an arrival that straddles a step: half at 1/s, half at 4/s", []Leg{{From: 1, To: 1, For: Span(1500 * time.Millisecond)}, {From: 4, To: 4}}, []float64{1, 1.625, 1.875}},
		{"a ramp from nothing: n-th at sqrt(2n/slope)", []Leg{{To: 2, For: Span(2 * time.Second)}, {From: 2, To: 2}}, []float64{math.Sqrt2, 2, 2.5}},
		{"a ramp down", []Leg{{From: 2, To: 0, For: Span(2 * time.Second)}, {From: 1, To: 1}}, []float64{2 - math.Sqrt2, 2, 3}},
		{"a pause in the middle", []Leg{{From: 1, To: 1, For: Span(time.Second)}, {For: Span(10 * time.Second)}, {From: 1, To: 1}}, []float64{1, 12, 13}},
		{"a rate of 0 at the end ends it", []Leg{{From: 1, To: 1, For: Span(2500 * time.Millisecond)}, {}}, []float64{1, 2}},
		{"an end ends it", []Leg{{From: 1, To: 1, For: Span(2500 * time.Millisecond)}}, []float64{1, 2}},
	} {
		var got []float64
		for _, due := range stream(row.legs...).Arrivals() {
			if got = append(got, due.Seconds()); len(got) == len(row.want) && row.legs[len(row.legs)-1].From > 0 && row.legs[len(row.legs)-1].For == 0 {
				break
			}
		}
		if !slices.EqualFunc(got, row.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
	}
}

func TestPoissonArrivalsHaveTheRateAndTheSpread(t *testing.T) {
	p := stream(Leg{From: 50, To: 50})
	p.Arrival.Open.Distribution = "poisson"
	dues := until(p, 2000*time.Second)
	var sum, squares float64
	for i := 1; i < len(dues); i++ {
		gap := (dues[i] - dues[i-1]).Seconds()
		sum += gap
		squares += gap * gap
	}
	n := float64(len(dues) - 1)
	mean := sum / n
	if math.Abs(mean-0.02) > 0.0005 {
		t.Errorf("mean gap %v, want 0.02", mean)
	}
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(cv-1) > 0.02 {
		t.Errorf("coefficient of variation %v, an exponential has 1", cv)
	}
}

func TestArrivalsNeverGoBackAndMatchTheAreaUnderTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leg := rapid.Custom(func(t *rapid.T) Leg {
			return Leg{
				From: float64(rapid.IntRange(0, 50).Draw(t, "from")), To: float64(rapid.IntRange(0, 50).Draw(t, "to")),
				For: Span(rapid.IntRange(1, 20_000).Draw(t, "ms")) * Span(time.Millisecond),
			}
		})
		legs := rapid.SliceOfN(leg, 1, 5).Draw(t, "legs")
		var area float64
		for _, l := range legs {
			area += (l.From + l.To) / 2 * l.For.Duration().Seconds()
		}
		dues := until(stream(legs...), time.Hour)
		if !slices.IsSorted(dues) {
			t.Error("arrivals out of order")
		}
		if math.Abs(float64(len(dues))-area) > 1+1e-6*area {
			t.Errorf("%d arrivals, the area is %v", len(dues), area)
		}
	})
}

func TestAClosedStreamBeginsWithWhatItHolds(t *testing.T) {
	s := Stream{Mix: []Weighted{{Weight: 1}}, Start: Span(time.Second)}
	s.Arrival.Closed = &Closed{Held: 4, Over: Span(2 * time.Second)}
	got := until(newStreamPlan(s, 1), time.Hour)
	want := []time.Duration{1e9, 15e8, 2e9, 25e8}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSessionsAreDrawnFromTheirNumberAlone(t *testing.T) {
	s := Stream{Mix: []Weighted{
		{Weight: 3, Session: Session{Kind: SSH, Length: Distribution{Shape: Exponential, Mean: Span(time.Minute)}}},
		{Weight: 1, Session: Session{Kind: KubeExec, Length: Always(time.Second)}},
	}}
	s.Arrival.Closed = &Closed{Held: 1}
	p := newStreamPlan(s, 42)
	kinds, users := map[string]int{}, map[int]int{}
	for n := uint64(1); n <= 8000; n++ {
		d := p.Session(n, 4)
		if again := p.Session(n, 4); again.Length != d.Length || again.Seed != d.Seed || again.Agent != d.Agent {
			t.Fatalf("session %d drawn twice differs", n)
		}
		kinds[d.Session.Kind]++
		users[d.User]++
	}
	if k := kinds[SSH]; k < 5850 || k > 6150 {
		t.Errorf("%d of 8000 are ssh, the weights want 6000", k)
	}
	if len(users) != 4 || users[0] < 1800 || users[0] > 2200 {
		t.Errorf("users %v", users)
	}
	if other := newStreamPlan(s, 43).Session(1, 4); other.Seed == p.Session(1, 4).Seed {
		t.Error("another seed draws the same")
	}
}

// TestThink: the pause before session n comes from the seed and n alone, of whatever distribution it is, and what
// sessions draw does not depend on it.
func TestThink(t *testing.T) {
	p := StreamPlan{Seed: 5, Stream: Stream{Mix: []Weighted{{Weight: 1, Session: Session{Length: Always(time.Second)}}}, Arrival: Arrival{Closed: &Closed{Held: 3}}}}
	if got := p.Think(4); got != 0 {
		t.Errorf("nothing is said and it thinks for %s", got)
	}
	before := p.Session(4, 2)
	p.Arrival.Closed.Think = Distribution{Shape: Exponential, Mean: Span(time.Second), Max: Span(10 * time.Second)}
	var sum time.Duration
	differ := false
	for n := uint64(4); n < 2004; n++ {
		got := p.Think(n)
		if got != p.Think(n) || got < 0 || got > 10*time.Second {
			t.Fatalf("session %d: %s, then %s", n, got, p.Think(n))
		}
		differ = differ || got != p.Think(4)
		sum += got
	}
	if mean := sum / 2000; !differ || mean < 900*time.Millisecond || mean > 1100*time.Millisecond {
		t.Errorf("mean %s, want about a second", mean)
	}
	if diff := cmp.Diff(before, p.Session(4, 2)); diff != "" {
		t.Errorf("the session has changed:\n%s", diff)
	}
}

// TestThinkOfOlderPlans: it was a duration once.
func TestThinkOfOlderPlans(t *testing.T) {
	for text, want := range map[string]Distribution{
		`{"held": 3, "think": "1m30s"}`:                                        Always(90 * time.Second),
		`{"held": 3, "think": {"shape": "uniform", "min": "1s", "max": "2s"}}`: {Shape: Uniform, Min: Span(time.Second), Max: Span(2 * time.Second)},
		`{"held": 3}`: {},
	} {
		var c Closed
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Think); diff != "" || c.Held != 3 {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
