package process

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers c and returns it, or the collector that another service of
// the same process has registered under its name before.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if same, ok := already.ExistingCollector.(C); ok {
			return same
		}
	}
	return c
}
