package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/run/watch"
	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
)

// auditSource is where the run's audit log and recordings are read: one auth, whichever answers, or, where each of
// several keeps its own on its disk, all of them together.
type auditSource interface {
	recordings.Source
	Close() error
}

// openAudit reaches the auths' API.
func (t *trial) openAudit() (auditSource, error) {
	if t.system.facts.Standin || lab.Auths(t.system.values) <= 1 {
		return t.system.openAudit()
	}
	return &allAuths{state: t.state, open: t.system.openAuditAt, logs: map[string]*audit.Log{}}, nil
}

// openAuditAt reaches the API of one auth pod.
func (s *system) openAuditAt(p pods.Pod) (*audit.Log, error) {
	opts := s.auditOptions()
	opts.Identity, opts.Rate = s.observer, 200
	opts.Address = net.JoinHostPort(p.IP, pods.AuthPort)
	return audit.Open(opts)
}

// allAuths reads the logs of the auth pods that run now as one.
type allAuths struct {
	state *watch.State
	open  func(pods.Pod) (*audit.Log, error)

	mu   sync.Mutex
	logs map[string]*audit.Log // by pod UID
}

var errNoAuth = errors.New("no auth runs")

// group has a log for each auth that runs.
func (a *allAuths) group() (audit.Group, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out audit.Group
	for _, p := range a.state.Running(pods.Auth) {
		if a.logs[p.UID] == nil {
			log, err := a.open(p)
			if err != nil {
				return nil, fmt.Errorf("audit log of %s: %w", p.Name, err)
			}
			a.logs[p.UID] = log
		}
		out = append(out, a.logs[p.UID])
	}
	if len(out) == 0 {
		return nil, errNoAuth
	}
	return out, nil
}

// Events implements recordings.Source. It fails if any auth that runs does not answer: what only that one knows
// would look lost.
func (a *allAuths) Events(ctx context.Context, from, to time.Time, kinds ...string) iter.Seq2[audit.Event, error] {
	return func(yield func(audit.Event, error) bool) {
		g, err := a.group()
		var all []audit.Event
		if err == nil {
			all, err = g.Events(ctx, from, to, kinds...)
		}
		if err != nil {
			yield(audit.Event{}, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Play implements recordings.Source.
func (a *allAuths) Play(ctx context.Context, session string) (audit.Playback, error) {
	g, err := a.group()
	if err != nil {
		return audit.Playback{}, err
	}
	return g.Play(ctx, session)
}

func (a *allAuths) Close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.logs {
		err = errors.Join(err, l.Close())
	}
	return err
}

// authLives remembers when each auth pod was there.
type authLives struct {
	mu   sync.Mutex
	pods []authLife
}

type authLife struct {
	pod      history.PodRef
	from, to time.Duration // to: 0 while it lives
}

// tap reads along what goes into the history.
func (a *authLives) tap(e history.Event) {
	c, ok := e.Data.(history.PodChange)
	if !ok || c.Pod.Component != pods.Auth {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.pods, func(l authLife) bool { return l.pod.UID == c.Pod.UID })
	if i < 0 {
		a.pods = append(a.pods, authLife{pod: c.Pod, from: e.At})
		i = len(a.pods) - 1
	}
	if c.State == history.PodGone && a.pods[i].to == 0 {
		a.pods[i].to = e.At
	}
}

// between are the auths that were there at some time between two moments of the run.
func (a *authLives) between(from, until time.Duration) (out []history.PodRef) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.pods {
		if l.from <= until && (l.to == 0 || l.to >= from) {
			out = append(out, l.pod)
		}
	}
	return out
}

// auths tells what became of each auth that can hold a recording made between two moments.
func (g *targets) auths(from, until time.Duration) (out []recordings.Holder) {
	for _, p := range g.t.auths.between(from, until) {
		out = append(out, g.holder(p, from))
	}
	return out
}
