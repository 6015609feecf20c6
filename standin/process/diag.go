package process

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Diag is the diagnostics address: /healthz, /readyz, /metrics.
type Diag struct {
	server *http.Server
	addr   net.Addr
}

// ServeDiag listens on addr. The registry gets the process's own metrics.
func ServeDiag(ctx context.Context, addr string, health *Health, reg *prometheus.Registry) (*Diag, error) {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for diagnostics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
	})
	mux.HandleFunc("/readyz", health.ServeReady)
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	d := &Diag{server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, addr: lis.Addr()}
	go func() { _ = d.server.Serve(lis) }()
	return d, nil
}

// Addr is where it listens.
func (d *Diag) Addr() net.Addr { return d.addr }

// Close stops it.
func (d *Diag) Close() error { return d.server.Close() }

// NewRegistry is a registry with the process's own metrics: Go, file
// descriptors, the state, and what makes this a stand-in.
func NewRegistry(b Behaviour, scale Scale, health *Health) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := func(name, help string, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return 1 })
	}
	factor := max(float64(scale), 1)
	reg.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "process_state", Help: "State of the teleport process: 0 - ok, 1 - recovering, 2 - degraded, 3 - starting"},
			func() float64 { return float64(health.State()) }),
		info("teleport_build_info", "Provides build information of Teleport", prometheus.Labels{"version": b.Version, "gitref": "standin", "goversion": "standin"}),
		info("standin_info", "Says that this is a stand-in for Teleport and which version it behaves as", prometheus.Labels{"behave_as": b.Name}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "standin_time_factor", Help: "Factor by which the recording and session timers are shortened"},
			func() float64 { return factor }),
	)
	return reg
}
