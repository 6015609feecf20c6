package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/load/timers"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
)

// Engine puts the load of one plan on a cluster. Make it with New, Start it once, Stop it once.
type Engine struct {
	cfg     Config
	history Recorder
	mode    string // of recording
	bounds  bounds
	openers map[string]opener // by kind of session
	canary  canary
	streams []*stream
	queue   *timers.Queue
	ledger  ledger
	base    time.Time // history's zero
	log     *slog.Logger

	arrive   context.Context // arrivals end with it
	halt     context.CancelFunc
	life     context.Context // everything else ends with it
	end      context.CancelFunc
	gc       int            // the collector's setting before Start
	rank     func()         // gives this process its place back; nil: it kept it
	workers  sync.WaitGroup // arrivals, canaries, the queue
	sessions sync.WaitGroup

	mu      sync.Mutex
	live    map[*session]struct{}
	stopped bool // no session is begun any more
}

// bounds are the plan's, as the engine needs them.
type bounds struct {
	gap, stall time.Duration
	late       time.Duration // from when on a session is not begun any more
}

// lateness is how many times validity.lateP99 a session may be late before it is not begun any more.
const lateness = 10

// gcPercent is the garbage collector's setting between Start and Stop. Handshakes leave their litter between what
// is held: collected twice as often as Go would, a held session takes 94 instead of 103 KiB, for a twentieth more
// processor time at opening.
const gcPercent = 50

// New makes an engine; nothing is dialled yet. The error lists everything that is wrong with the configuration.
func New(cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Dial == nil {
		cfg.Dial = newSpreader().DialContext
	}
	e := newEngine(cfg)
	ssh, err := newSSHOpener(cfg, e.longestTimeout(), e.forwardAgent())
	if err != nil {
		return nil, err
	}
	if e.canary, err = e.newCanary(); err != nil {
		return nil, err
	}
	kube := &kubeOpener{users: cfg.Users, dial: cfg.Dial}
	e.openers = map[string]opener{
		scenarios.SSH: ssh, scenarios.KubeExec: kube, scenarios.KubePortForward: portForwards{kube},
		scenarios.KubeWatch: watches{kube}, scenarios.KubeAPI: apiCalls{kube},
	}
	return e, nil
}

// newEngine makes an engine without ways to open anything.
func newEngine(cfg Config) *Engine {
	v := cfg.Plan.Validity
	e := &Engine{
		cfg: cfg, history: cfg.History, queue: timers.New(), live: map[*session]struct{}{}, log: cfg.Log,
		mode:   recordingMode(cfg),
		bounds: bounds{gap: v.Gap.Duration(), stall: v.Stall.Duration(), late: max(lateness*v.LateP99.Duration(), time.Second)},
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	for i := range cfg.Plan.Streams {
		e.streams = append(e.streams, newStream(e, cfg.Plan.Streams[i]))
	}
	return e
}

// forwardAgent: a proxy that records logs in at the node as the user, with the agent that the client forwards.
func (e *Engine) forwardAgent() bool { return strings.HasPrefix(e.mode, "proxy") }

func recordingMode(cfg Config) string {
	for _, mode := range []string{cfg.RecordingMode, cfg.Plan.Recordings.Mode} {
		if mode != "" {
			return mode
		}
	}
	return "node" // Teleport's own default
}

func (c Config) check() error {
	var errs []error
	for _, need := range []struct {
		missing bool
		what    string
	}{{c.Plan == nil, "a plan"}, {c.History == nil, "a history"}, {c.Targets == nil, "targets"}, {len(c.Users) == 0, "users"}} {
		if need.missing {
			errs = append(errs, fmt.Errorf("load: needs %s", need.what))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, s := range c.Plan.Streams {
		for _, m := range s.Mix {
			if err := Supports(m.Session); err != nil {
				errs = append(errs, fmt.Errorf("stream %s: %w", s.Name, err))
			}
			if m.Session.Behaviour == "channels" && strings.HasPrefix(recordingMode(c), "proxy") {
				errs = append(errs, fmt.Errorf("stream %s: where a proxy records, its log knows sessions by their connections, so channels of one cannot be told apart", s.Name))
			}
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) longestTimeout() (longest time.Duration) {
	for _, s := range e.cfg.Plan.Streams {
		for _, m := range s.Mix {
			longest = max(longest, m.Session.Timeout.Duration())
		}
	}
	return longest
}

// Start begins all streams, canaries, control arm and self-watch. The timeline starts now: streams count from it.
// The engine works until Stop; ctx lends its values only.
func (e *Engine) Start(ctx context.Context) {
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	e.arrive, e.halt = context.WithCancel(e.life)
	e.gc = debug.SetGCPercent(gcPercent)
	if e.cfg.Precedence {
		e.prioritise()
	}
	now := time.Now()
	e.base = now.Add(-e.history.Since(now))
	e.work(func() { e.queue.Run(e.life) })
	for _, s := range e.streams {
		s.began = now
		e.work(func() { s.run(e.arrive) })
	}
	e.work(func() { e.watch(e.life) })
	e.work(func() { e.probe(e.life) })
	e.work(func() { e.control(e.life) })
}

func (e *Engine) prioritise() {
	var err error
	if e.rank, err = prioritise(); err != nil {
		e.log.Debug("the generator runs at the priority of everything else", "err", err)
	}
}

func (e *Engine) work(f func()) {
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		f()
	}()
}

// admit takes sessions among those that live, or says that it is too late.
func (e *Engine) admit(all []*session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return false
	}
	e.sessions.Add(len(all))
	for _, s := range all {
		e.live[s] = struct{}{}
	}
	return true
}

// moment converts a time of the run.
func (e *Engine) moment(at time.Duration) time.Time {
	if at == never {
		return e.base.Add(foreverAfter)
	}
	return e.base.Add(at)
}

// foreverAfter is later than any run.
const foreverAfter = 100 * 24 * time.Hour

func (e *Engine) user(n int) *identity.Identity {
	if n < len(e.cfg.Users) {
		return e.cfg.Users[n]
	}
	return nil
}

func (e *Engine) userName(n int) string {
	if id := e.user(n); id != nil {
		return id.User
	}
	return ""
}
