// Package process runs the stand-in's services as one process: it joins each
// to the cluster, starts it, feeds /readyz from its heartbeats and stops it the
// way the imitated version answers a signal.
package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
)

// Service is one role of the process. Start returns once it listens and serves
// until Close. Drain stops taking new work and returns when the work in hand is
// done or ctx ends; Close cuts everything at once and may follow Drain.
type Service interface {
	Start(ctx context.Context) error
	Drain(ctx context.Context) error
	Close() error
}

// Env is what a service is given. Auth has joined with the service's own role,
// so its Identity is complete.
type Env struct {
	Config    *config.Config
	Auth      authclient.Client
	Behaviour Behaviour
	Faults    *faults.Registry
	Metrics   prometheus.Registerer
	Log       *slog.Logger
	Scale     Scale
	// Insecure is --insecure: the proxy's web certificate is not verified.
	Insecure bool
	// TunnelBackoff is the longest wait between two tries to meet a proxy; zero is the real program's.
	TunnelBackoff time.Duration
	// Heartbeat feeds /readyz: call it after every try to announce the service,
	// with the error or nil, at least every Scale.BeatEvery; Beat does that.
	Heartbeat func(component string, err error)
}

// New makes a service. It may not block.
type New func(Env) (Service, error)

// Scale is the factor by which long times of the real program are shortened
// (STANDIN_TIME_FACTOR); 0 and 1 leave them.
type Scale float64

// Of is d shortened.
func (s Scale) Of(d time.Duration) time.Duration {
	if s <= 1 {
		return d
	}
	return time.Duration(float64(d) / float64(s))
}

// Times of the real program (FACTS of 13.0.0-dev); use them through Scale.
const (
	HeartbeatCheck    = 5 * time.Second  // how often a heartbeat is looked at
	Announce          = 5 * time.Minute  // how often a server is announced again
	ServerTTL         = 10 * time.Minute // how long a silent server stays listed
	TrackerTTL        = 30 * time.Minute
	TrackerRefresh    = 10 * time.Minute
	TrackerEndedTTL   = 3 * time.Minute
	CompleterPoll     = 5 * time.Minute
	CompleterEndDelay = 2 * time.Minute
	UploaderScan      = 5 * time.Second
	UploaderMaxWait   = 500 * time.Second
	PartFlushIdle     = 5 * time.Minute
)
