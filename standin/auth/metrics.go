package auth

import (
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/process"
)

// metrics carries the real program's names.
type metrics struct {
	emitted, failedEmit      prometheus.Counter
	heartbeats, signed       prometheus.Counter
	requests                 prometheus.Counter
	connected                *prometheus.GaugeVec
	registered               *prometheus.GaugeVec
	incomplete               prometheus.Gauge
	generateSeconds          prometheus.Histogram
	throttled, logins, wrong prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return process.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	vec := func(name, help, label string) *prometheus.GaugeVec {
		return process.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label}))
	}
	return &metrics{
		emitted:    counter("teleport_audit_emit_events", "Number of audit events emitted"),
		failedEmit: counter("audit_failed_emit_events", "Number of times emitting audit event failed."),
		heartbeats: counter("heartbeat_connections_received_total", "Number of times auth received a heartbeat connection"),
		signed:     counter("auth_generate_requests_total", "Number of requests to generate new server keys"),
		throttled:  counter("auth_generate_requests_throttled_total", "Number of throttled requests to generate new server keys"),
		logins:     counter("user_login_total", "Number of times there was a user login"),
		wrong:      counter("failed_login_attempts_total", "Number of failed user logins"),
		requests:   counter("standin_auth_requests_total", "Number of gRPC calls and streams that the auth was asked for"),
		connected:  vec("teleport_connected_resources", "Number and type of resources connected via keepalives", "type"),
		registered: vec("teleport_registered_servers", "The number of Teleport services that are connected to an auth server by version", "version"),
		incomplete: process.Register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "teleport_incomplete_session_uploads_total", Help: "Number of sessions not yet uploaded to auth",
		})),
		generateSeconds: process.Register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "auth_generate_seconds", Help: "Latency for generate requests", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		})),
	}
}
