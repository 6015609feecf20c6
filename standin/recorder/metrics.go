package recorder

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector, or gives the one that another service of the process registered under that name.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if err == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if have, ok := already.ExistingCollector.(C); ok {
			return have
		}
	}
	panic(err) // a name used for two kinds of metric is a mistake in the program
}

// Gauge registers a gauge, see Register.
func Gauge(reg prometheus.Registerer, name, help string) prometheus.Gauge {
	return Register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// Counter registers a counter, see Register.
func Counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return Register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}
