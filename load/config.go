package load

import (
	"context"
	"io"
	"log/slog"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/kube"
	"shakedown.dev/shakedown/teleport/ssh"
)

// Recorder takes events and knows the run's clock; *history.Recorder is one.
type Recorder interface {
	Record(history.Event)
	Now() time.Duration
	Since(time.Time) time.Duration
}

// Config is what an Engine needs. Plan, History, Targets and Users are required.
type Config struct {
	Plan    *scenarios.Plan
	History Recorder
	Targets Targets
	// Users carry the load: session n goes as Users[Drawn.User].
	Users []*identity.Identity
	Dial  ssh.DialFunc // nil: a net.Dialer, from several addresses where ports run out; in a cluster its DialContext
	// RecordingMode is the cluster's: node, node-sync, proxy, proxy-sync or off; empty: the plan's, or else node.
	RecordingMode string
	// CanaryUser opens the canaries through each proxy pod; nil: Users[0].
	CanaryUser *identity.Identity
	// Precedence puts this process before the others of the machine between Start and Stop, if it may: for when the
	// system under test runs beside it.
	Precedence bool
	Log        *slog.Logger // nil: nothing is logged
}

// Targets are where sessions can go right now. The conductor keeps them up to date from its watches; every method
// is called often, from many goroutines, and must not block. What they return is not changed afterwards.
type Targets interface {
	// Proxies are the proxy pods that run and have an address, ready or not: canaries go to all of them, sessions
	// to the ready ones.
	Proxies() []Proxy
	// Service is the proxies' Service, for streams that go through it.
	Service() Proxy
	// Agents are the nodes that can be dialled through a proxy.
	Agents() []history.Agent
	// KubePods are containers for kube-exec and kube-port-forward sessions; kube-watch and kube-api sessions look in
	// their namespaces. May be empty if the plan has none of these.
	KubePods() []KubePod
	// Controls are the ways beside Teleport that the control arm takes; see [DirectNode] and [PodShell].
	Controls() []Control
}

// Proxy is one way in.
type Proxy struct {
	Pod   history.PodRef
	Ready bool // counted ready by Kubernetes, so that its Service leads to it
	SSH   ssh.Proxy
	Kube  string // host:port for Kubernetes access; empty: SSH.Address
	// KubeSeparate says that Kube is the port of proxyListenerMode separate.
	KubeSeparate bool
}

// KubePod is a container that kube-exec sessions run in.
type KubePod struct {
	Pod    history.PodRef
	Target kube.Target
	// Port serves HTTP, for kube-port-forward sessions; 0: nothing there is known to.
	Port int
}

// Control is one way of the control arm.
type Control struct {
	// Target names it in the history. It must contain the pod's name, so that a pod ended on purpose excuses it.
	Target string
	// Open gives a stream that returns each line it is sent.
	Open func(context.Context) (io.ReadWriteCloser, error)
	// Handshake connects, exchanges keys, checks the node's certificate and hangs up. Nil: nothing there computes alone.
	Handshake func(context.Context) error
}

// Stats are the engine's counts over all streams.
type Stats struct {
	Held    int    // open now
	Opening int    // begun and not open yet
	Due     uint64 // sessions that were due
	Started uint64
	Opened  uint64
	Ended   uint64
	Capped  uint64
	Missed  uint64
	Refused uint64
	Dropped uint64
	Stalled uint64
	// LastOpens are the open latencies (from due) of sessions opened in the last ten seconds, in no order; for
	// conditions such as recovered().
	LastOpens []time.Duration
}

// Recorded are the sessions so far of which a recording is expected, for [recordings.Check]; call it after Stop.
func (e *Engine) Recorded() []recordings.Session { return e.ledger.recorded() }
