package scenarios

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantities(t *testing.T) {
	text := func(v any, err error) string {
		if err != nil {
			return "error"
		}
		return fmt.Sprint(v)
	}
	for _, row := range []struct{ kind, in, want string }{
		{"duration", "1m30s", "1m30s"}, {"duration", "0", "0s"}, {"duration", "30", "error"},
		{"duration", "-1s", "error"}, {"duration", "", "error"}, {"duration", "5 s", "error"},
		{"rate", "5/s", "5"}, {"rate", "300/m", "5"}, {"rate", "3600/h", "1"}, {"rate", "0.5 / s", "0.5"},
		{"rate", "5", "error"}, {"rate", "5/d", "error"}, {"rate", "-5/s", "error"}, {"rate", "NaN/s", "error"},
		{"share", "50%", "0.5"}, {"share", "0.25", "0.25"}, {"share", "1", "1"}, {"share", "50", "error"},
		{"share", "-1%", "error"}, {"share", "NaN", "error"},
		{"size", "64KiB", "65536"}, {"size", "64Ki", "65536"}, {"size", "1.5MB", "1500000"}, {"size", "512", "512"},
		{"size", "512B", "512"}, {"size", "2TB", "error"}, {"size", "", "error"}, {"size", "999999999999GiB", "error"},
		{"byterate", "64KiB/s", "65536"}, {"byterate", "64KiB", "error"}, {"byterate", "x/s", "error"},
	} {
		var got string
		switch row.kind {
		case "duration":
			got = text(ParseDuration(row.in))
		case "rate":
			got = text(ParseRate(row.in))
		case "share":
			got = text(ParseShare(row.in))
		case "size":
			got = text(ParseSize(row.in))
		case "byterate":
			got = text(ParseByteRate(row.in))
		}
		if got != row.want {
			t.Errorf("%s %q: got %s, want %s", row.kind, row.in, got, row.want)
		}
	}
}

func TestWhatIsPrintedReadsBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "duration"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Errorf("%v: %q, %v", d, FormatDuration(d), err)
		}
		rate := float64(rapid.IntRange(1, 1e6).Draw(t, "rate")) / 60
		if got, err := ParseRate(FormatRate(rate)); err != nil || math.Abs(got-rate) > 1e-9*rate {
			t.Errorf("%v: %q, %v", rate, FormatRate(rate), err)
		}
		share := float64(rapid.IntRange(0, 10_000).Draw(t, "share")) / 10_000
		if got, err := ParseShare(FormatShare(share)); err != nil || math.Abs(got-share) > 1e-9 {
			t.Errorf("%v: %q, %v", share, FormatShare(share), err)
		}
	})
}

func TestDistributionsHaveTheirMeanAndKeepTheirBounds(t *testing.T) {
	s := Span(time.Second)
	for _, row := range []struct {
		name string
		d    Distribution
		mean time.Duration // of what Draw gives, worked out by hand
	}{
		{"a constant is always the same", Always(time.Second), time.Second},
		{"uniform has its middle", Distribution{Shape: Uniform, Min: s, Max: 3 * s}, 2 * time.Second},
		{"exponential has its mean", Distribution{Shape: Exponential, Mean: 10 * s}, 10 * time.Second},
		{"a cut exponential has less: m(1-e^(-max/m))", Distribution{Shape: Exponential, Mean: 10 * s, Max: 10 * s}, 6321 * time.Millisecond},
		{"log-normal: median times e^(sigma²/2)", Distribution{Shape: Lognormal, Mean: 10 * s, Sigma: 0.5}, 11331 * time.Millisecond},
		{"a file has the mean of its lines", Distribution{Shape: Empirical, Values: []Span{s, 2 * s, 9 * s}}, 4 * time.Second},
	} {
		rng, sum := rand.New(rand.NewPCG(1, 2)), 0.0
		const n = 200_000
		for range n {
			v := row.d.Draw(rng)
			if v < row.d.Min.Duration() || (row.d.Max > 0 && v > row.d.Max.Duration()) {
				t.Fatalf("%s: drew %v", row.name, v)
			}
			sum += float64(v)
		}
		for what, got := range map[string]float64{"drawn": sum / n, "Average": float64(row.d.Average())} {
			if math.Abs(got-float64(row.mean)) > 0.01*float64(row.mean) {
				t.Errorf("%s: %s mean %v, want %v", row.name, what, time.Duration(got), row.mean)
			}
		}
	}
}

func TestNearestForgivesASlipAndNotMore(t *testing.T) {
	words := []string{"podDelete", "nodeDrain", "helmUpgrade"}
	for in, want := range map[string]string{
		"podDelet": "podDelete", "poddelete": "podDelete", "podDleete": "podDelete",
		"nodedrian": "nodeDrain", "helmUpgarde": "helmUpgrade", "reboot": "", "": "",
	} {
		if got := nearest(in, words); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
