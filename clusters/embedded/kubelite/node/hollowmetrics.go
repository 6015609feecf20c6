package node

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/kubelet/metrics/collectors"
)

// A kubelet registers collectors of its own in registries that the process has
// one of, and panics where they are taken. So kubelets of one process take
// turns, and each one's collectors are removed before the next one comes.
// Nobody scrapes hollow kubelets.

// turnstile lets kubelets through one at a time.
type turnstile struct {
	mu         sync.Mutex
	collectors []prometheus.Collector
}

func newTurnstile() *turnstile {
	t := &turnstile{}
	for _, c := range []metrics.StableCollector{collectors.NewVolumeStatsCollector(nil), collectors.NewLogMetricsCollector(nil)} {
		c.Create(nil, c)
		t.collectors = append(t.collectors, c)
	}
	prometheus.DefaultRegisterer = lenient{prometheus.DefaultRegisterer}
	return t
}

// pass starts a kubelet and returns when its collectors are there and gone.
func (t *turnstile) pass(start func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := start(); err != nil {
		return err
	}
	for _, c := range t.collectors {
		for !legacyregistry.Registerer().Unregister(c) {
			time.Sleep(time.Millisecond) // its main goroutine registers in its own time
		}
	}
	return nil
}

// lenient takes a second collector of the same name for the first.
type lenient struct{ prometheus.Registerer }

// MustRegister panics for nothing.
func (l lenient) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = l.Register(c) // taken already: the first one stands for all
	}
}
