package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Shape is the kind of a distribution.
type Shape string

// The shapes.
const (
	Constant    Shape = "constant"
	Uniform     Shape = "uniform"
	Exponential Shape = "exponential"
	Lognormal   Shape = "lognormal"
	Empirical   Shape = "file"
)

// Distribution is a distribution of durations. The zero value is "not said".
type Distribution struct {
	Shape Shape `json:"shape,omitempty"`
	// Mean of an exponential, value of a constant, median of a log-normal.
	Mean  Span    `json:"mean,omitempty"`
	Sigma float64 `json:"sigma,omitempty"` // of the logarithm of a log-normal
	Min   Span    `json:"min,omitempty"`
	// Max cuts longer draws; 0: no bound.
	Max Span `json:"max,omitempty"`
	// Values of an empirical distribution, each as likely as the others.
	Values []Span `json:"values,omitempty"`
	File   string `json:"file,omitempty"` // where Values came from
}

// Always is the distribution that has one value.
func Always(d time.Duration) Distribution { return Distribution{Shape: Constant, Mean: Span(d)} }

// UnmarshalJSON also takes a duration: plans of earlier versions have one where a distribution stands now.
func (d *Distribution) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte{'"'}) {
		var s Span
		err := json.Unmarshal(b, &s)
		*d = Always(s.Duration())
		return err
	}
	type plain Distribution
	return json.Unmarshal(b, (*plain)(d))
}

// IsZero says whether the scenario left it out.
func (d Distribution) IsZero() bool { return d.Shape == "" }

// Draw takes one value. Equal generators give equal values.
func (d Distribution) Draw(rng *rand.Rand) time.Duration {
	var v float64
	switch d.Shape {
	case Constant:
		v = float64(d.Mean)
	case Uniform:
		v = float64(d.Min) + rng.Float64()*float64(d.Max-d.Min)
	case Exponential:
		v = -math.Log(1-rng.Float64()) * float64(d.Mean)
	case Lognormal:
		v = float64(d.Mean) * math.Exp(d.Sigma*rng.NormFloat64())
	case Empirical:
		v = float64(d.Values[rng.IntN(len(d.Values))])
	}
	if d.Max > 0 {
		v = min(v, float64(d.Max))
	}
	return time.Duration(min(max(v, float64(d.Min)), math.MaxInt64/2))
}

// Average is the mean of Draw, as far as it is known without drawing; cuts by
// Min and Max are counted in for exponentials only.
func (d Distribution) Average() time.Duration {
	switch d.Shape {
	case Uniform:
		return time.Duration(d.Min+d.Max) / 2
	case Exponential:
		mean := float64(d.Mean)
		if d.Max > 0 {
			mean *= 1 - math.Exp(-float64(d.Max)/mean)
		}
		return time.Duration(mean)
	case Lognormal:
		return time.Duration(float64(d.Mean) * math.Exp(d.Sigma*d.Sigma/2))
	case Empirical:
		var sum float64
		for _, v := range d.Values {
			sum += float64(v)
		}
		return time.Duration(sum / float64(len(d.Values)))
	}
	return time.Duration(d.Mean)
}

// String says it as a person would write it.
func (d Distribution) String() string {
	upTo := ""
	if d.Max > 0 {
		upTo = ", at most " + d.Max.String()
	}
	switch d.Shape {
	case Constant:
		return d.Mean.String()
	case Uniform:
		return fmt.Sprintf("uniform from %s to %s", d.Min, d.Max)
	case Exponential:
		return fmt.Sprintf("exponential, mean %s%s", d.Mean, upTo)
	case Lognormal:
		return fmt.Sprintf("log-normal, median %s, sigma %.3g%s", d.Mean, d.Sigma, upTo)
	case Empirical:
		return fmt.Sprintf("%d values from %s%s", len(d.Values), d.File, upTo)
	}
	return "not said"
}

// Span is a duration that is text in JSON, such as "1m30s".
type Span time.Duration

// Duration is the same as Go's type.
func (s Span) Duration() time.Duration { return time.Duration(s) }

// String is the shortest form of Go's syntax.
func (s Span) String() string { return FormatDuration(time.Duration(s)) }

// MarshalText is String.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads Go's syntax.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := ParseDuration(string(text))
	*s = Span(d)
	return err
}
