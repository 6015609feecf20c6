package auth

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/state"
)

// measured is a store with the real program's backend metrics.
type measured struct {
	state.Store
	read, write measure
}

type measure struct {
	total, failed prometheus.Counter
	seconds       prometheus.Observer
}

// measureStore wraps store; component is the backend's name in the metrics.
func measureStore(store state.Store, reg prometheus.Registerer, component string) state.Store {
	vec := func(kind string) measure {
		counter := func(name, help string) prometheus.Counter {
			return process.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"component"})).WithLabelValues(component)
		}
		seconds := process.Register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "backend_" + kind + "_seconds", Help: "Latency for backend " + kind + " operations",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"component"}))
		return measure{
			total:   counter("backend_"+kind+"_requests_total", "Number of "+kind+" requests to the backend"),
			failed:  counter("backend_"+kind+"_requests_failed_total", "Number of failed "+kind+" requests to the backend"),
			seconds: seconds.WithLabelValues(component),
		}
	}
	return &measured{Store: store, read: vec("read"), write: vec("write")}
}

// done counts an operation. That a key is there or not is no failure.
func (m measure) done(started time.Time, err error) {
	m.total.Inc()
	m.seconds.Observe(time.Since(started).Seconds())
	if err != nil && !errors.Is(err, state.ErrNotFound) && !errors.Is(err, state.ErrExists) {
		m.failed.Inc()
	}
}

func (m *measured) Get(ctx context.Context, key string) (state.Item, error) {
	started := time.Now()
	item, err := m.Store.Get(ctx, key)
	m.read.done(started, err)
	return item, err
}

func (m *measured) List(ctx context.Context, prefix string) ([]state.Item, error) {
	started := time.Now()
	items, err := m.Store.List(ctx, prefix)
	m.read.done(started, err)
	return items, err
}

func (m *measured) Put(ctx context.Context, item state.Item) error {
	started := time.Now()
	err := m.Store.Put(ctx, item)
	m.write.done(started, err)
	return err
}

func (m *measured) Create(ctx context.Context, item state.Item) error {
	started := time.Now()
	err := m.Store.Create(ctx, item)
	m.write.done(started, err)
	return err
}

func (m *measured) Delete(ctx context.Context, key string) error {
	started := time.Now()
	err := m.Store.Delete(ctx, key)
	m.write.done(started, err)
	return err
}
