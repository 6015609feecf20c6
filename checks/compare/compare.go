// Package compare sets two sets of runs side by side and says for each measure whether they differ by
// more than chance. It is pure: verdicts in, a comparison out.
//
// Per measure it gives both medians, the two-sided Mann-Whitney U test (no assumption on the shape of
// the data, exact for small sets) corrected by Holm for asking about many measures at once, and a 95 %
// bootstrap interval of the difference of the medians. With too few runs for the test to be able to
// show anything it says so instead of guessing.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"shakedown.dev/shakedown/checks"
)

const (
	// Alpha is the chance of calling a difference that is none, over all measures together.
	Alpha     = 0.05
	resamples = 5000
)

// Change is what a comparison says of one measure.
type Change string

// The changes. NotShown is not "the same": a difference may be there and too small for so few runs.
const (
	Worse     Change = "worse"
	Better    Change = "better"
	Different Change = "different" // for measures of which neither direction is good
	NotShown  Change = "no difference shown"
	Same      Change = "the same" // every run of both sides has the same value
	TooFew    Change = "not enough runs"
)

// Row is one measure on both sides.
type Row struct {
	Measure string    `json:"measure"`
	Unit    string    `json:"unit,omitempty"`
	A       []float64 `json:"a"`
	B       []float64 `json:"b"`
	MedianA float64   `json:"medianA"`
	MedianB float64   `json:"medianB"`
	Diff    float64   `json:"diff"`          // median of B less median of A
	Low     *float64  `json:"low,omitempty"` // 95 % bootstrap interval of Diff; nil: not enough runs
	High    *float64  `json:"high,omitempty"`
	P       *float64  `json:"p,omitempty"` // Mann-Whitney, after Holm's correction; nil: not tested
	Change  Change    `json:"change"`
	better  int
}

// Side is one set of runs.
type Side struct {
	Runs     int            `json:"runs"`     // that count
	Verdicts map[string]int `json:"verdicts"` // of all runs given
	LeftOut  []string       `json:"leftOut"`  // runs that do not count, with why
}

// Result is a comparison.
type Result struct {
	A        Side     `json:"a"`
	B        Side     `json:"b"`
	Rows     []Row    `json:"rows"`
	Warnings []string `json:"warnings"` // in what the sides differ beside what is compared
	// Needed is how many valid runs each side needs before a difference can be shown at all.
	Needed int `json:"needed"`
}

// Worse says whether anything was shown to have become worse.
func (r Result) Worse() bool {
	return slices.ContainsFunc(r.Rows, func(r Row) bool { return r.Change == Worse })
}

// Verdicts compares b with a. Runs that are not valid are left out and named, because their numbers
// are not measurements. The same input and seed give the same intervals.
func Verdicts(a, b []checks.Verdict, seed uint64) Result {
	r := Result{Warnings: warnings(a, b)}
	var va, vb []checks.Verdict
	r.A, va = newSide(a)
	r.B, vb = newSide(b)
	for _, m := range measures(append(slices.Clone(va), vb...)) {
		if row, ok := m.row(va, vb); ok {
			r.Rows = append(r.Rows, row)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range r.Rows {
		r.Rows[i].test(rng)
	}
	r.Needed = holm(r.Rows)
	for _, side := range []struct {
		name string
		runs []checks.Verdict
	}{{"A", va}, {"B", vb}} {
		if n := unrecovered(side.runs); n > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d runs of %s had not recovered; the time watched stands for their recovery", n, side.name))
		}
	}
	return r
}

func unrecovered(vs []checks.Verdict) (n int) {
	for _, v := range vs {
		if r := v.Measures.Recovery; r != nil && !r.Recovered {
			n++
		}
	}
	return n
}

func newSide(vs []checks.Verdict) (Side, []checks.Verdict) {
	s := Side{Verdicts: map[string]int{}, LeftOut: []string{}}
	var valid []checks.Verdict
	for _, v := range vs {
		s.Verdicts[v.Verdict.String()]++
		if why := invalid(v); why != "" {
			s.LeftOut = append(s.LeftOut, v.Run+": "+why)
			continue
		}
		valid = append(valid, v)
	}
	s.Runs = len(valid)
	return s, valid
}

func invalid(v checks.Verdict) string {
	if v.Verdict == checks.Error {
		return "the harness or the machine broke"
	}
	if len(v.Validity) == 0 {
		return "nobody judged whether it is valid"
	}
	for _, x := range v.Validity {
		if !x.OK {
			return x.Name + " does not hold"
		}
	}
	return ""
}

// test fills in what the statistics say of one row; the change is decided after Holm's correction.
func (r *Row) test(rng *rand.Rand) {
	r.MedianA, r.MedianB = median(r.A), median(r.B)
	r.Diff = r.MedianB - r.MedianA
	result, err := stats.MannWhitneyUTest(r.A, r.B, stats.LocationDiffers)
	if errors.Is(err, stats.ErrSamplesEqual) {
		r.Change = Same
		return
	}
	if err != nil {
		r.Change = TooFew
		return
	}
	r.P = &result.P
	low, high := bootstrap(rng, r.A, r.B)
	r.Low, r.High = &low, &high
}

// holm corrects the p-values step by step (Holm 1979) and decides each change. Where even the clearest
// of orders could not be shown with so many measures and so few runs, nothing is claimed either way.
func holm(rows []Row) (needed int) {
	var tested []*Row
	for i := range rows {
		if rows[i].P != nil {
			tested = append(tested, &rows[i])
		}
	}
	needed = runsNeeded(max(len(tested), 1))
	slices.SortFunc(tested, func(a, b *Row) int { return cmp.Compare(*a.P, *b.P) })
	floor := 0.0
	for i, r := range tested {
		floor = max(floor, min(*r.P*float64(len(tested)-i), 1))
		if leastP(len(r.A), len(r.B))*float64(len(tested)) > Alpha {
			r.P, r.Low, r.High, r.Change = nil, nil, nil, TooFew
			continue
		}
		p := floor
		r.P = &p
		r.Change = r.change()
	}
	for i := range rows { // "the same" is a claim, too
		if rows[i].Change == Same && min(len(rows[i].A), len(rows[i].B)) < needed {
			rows[i].Change = TooFew
		}
	}
	return needed
}

// leastP is the smallest two-sided p the test can give: all of one side above all of the other.
func leastP(n, m int) float64 {
	orders := 1.0 // n+m over n
	for i := 1; i <= n; i++ {
		orders *= float64(m+i) / float64(i)
	}
	return 2 / orders
}

func runsNeeded(measures int) int {
	n := 1
	for leastP(n, n)*float64(measures) > Alpha {
		n++
	}
	return n
}

func (r *Row) change() Change {
	switch d := r.Diff * float64(r.better); {
	case *r.P > Alpha:
		return NotShown
	case r.better == 0:
		return Different
	case d > 0:
		return Better
	case d < 0:
		return Worse
	}
	return NotShown // the medians agree though the samples differ: not a shift anybody could name
}

// bootstrap gives the middle 95 % of the difference of medians over resampled runs.
func bootstrap(rng *rand.Rand, a, b []float64) (low, high float64) {
	diffs := make([]float64, resamples)
	for i := range diffs {
		diffs[i] = median(resample(rng, b)) - median(resample(rng, a))
	}
	slices.Sort(diffs)
	return diffs[resamples*25/1000], diffs[resamples*975/1000-1]
}

func resample(rng *rand.Rand, of []float64) []float64 {
	out := make([]float64, len(of))
	for i := range out {
		out[i] = of[rng.IntN(len(of))]
	}
	return out
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(of))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// warnings says in what the sides differ beside what is compared.
func warnings(a, b []checks.Verdict) []string {
	out := []string{}
	for _, f := range []struct {
		what string
		of   func(checks.Verdict) string
	}{
		{"scenario", func(v checks.Verdict) string { return v.Scenario }},
		{"stand-in under test", func(v checks.Verdict) string { return fmt.Sprint(v.SUT.Standin) }},
		{"cluster provider", func(v checks.Verdict) string { return v.Cluster.Provider }},
		{"number of nodes", func(v checks.Verdict) string { return fmt.Sprint(len(v.Cluster.Nodes)) }},
		{"recording mode", func(v checks.Verdict) string { return v.SUT.RecordingMode }},
	} {
		values := map[string]bool{}
		for _, v := range append(slices.Clone(a), b...) {
			values[f.of(v)] = true
		}
		if len(values) > 1 {
			var words []string
			for v := range values {
				words = append(words, v)
			}
			slices.Sort(words)
			out = append(out, fmt.Sprintf("the runs differ in %s: %q", f.what, words))
		}
	}
	return out
}
