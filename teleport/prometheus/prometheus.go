// Package prometheus asks a Prometheus that watches the system under test, for gates and plots in PromQL.
package prometheus

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Source is a Prometheus. It is safe for use by many goroutines.
type Source struct{ api v1.API }

// Open makes a Source of the Prometheus at url, reached with dial (nil: a net.Dialer). Nothing is dialled yet.
func Open(url string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Source, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	client, err := api.NewClient(api.Config{Address: url, RoundTripper: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 2}})
	if err != nil {
		return nil, fmt.Errorf("prometheus at %s: %w", url, err)
	}
	return &Source{v1.NewAPI(client)}, nil
}

// Value is what an expression gave.
type Value struct {
	Found    bool // false: no data, which is not zero; the caller's policy says what that means
	Number   float64
	Warnings []string
}

// Value evaluates an expression at one time. It must give a number, or a vector of at most one element: a gate over
// several series must say how they are put together. NaN counts as no data.
func (s *Source) Value(ctx context.Context, query string, at time.Time) (Value, error) {
	got, warnings, err := s.api.Query(ctx, query, at)
	if err != nil {
		return Value{}, fmt.Errorf("%s: %w", query, err)
	}
	out := Value{Warnings: warnings}
	switch v := got.(type) {
	case *model.Scalar:
		out.Found, out.Number = true, float64(v.Value)
	case model.Vector:
		if len(v) > 1 {
			return Value{}, fmt.Errorf("%s: %d series: put them together, with sum() or max()", query, len(v))
		}
		if len(v) == 1 {
			out.Found, out.Number = true, float64(v[0].Value)
		}
	default:
		return Value{}, fmt.Errorf("%s gives a %s: want a number", query, got.Type())
	}
	if math.IsNaN(out.Number) {
		out.Found, out.Number = false, 0
	}
	return out, nil
}

// Point is one sample of a series.
type Point struct {
	At    time.Time
	Value float64
}

// Series is what an expression gave over time, with its labels.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Range evaluates an expression over a window at steps, for plots. No series is no error.
func (s *Source) Range(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]Series, error) {
	got, _, err := s.api.QueryRange(ctx, query, v1.Range{Start: from, End: to, Step: step})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	matrix, ok := got.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s gives a %s: want series", query, got.Type())
	}
	out := make([]Series, 0, len(matrix))
	for _, stream := range matrix {
		one := Series{Labels: map[string]string{}}
		for name, value := range stream.Metric {
			one.Labels[string(name)] = string(value)
		}
		for _, p := range stream.Values {
			one.Points = append(one.Points, Point{At: p.Timestamp.Time(), Value: float64(p.Value)})
		}
		out = append(out, one)
	}
	return out, nil
}
