package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/timers"
	"shakedown.dev/shakedown/scenarios"
)

// stream is one source of sessions while it runs.
type stream struct {
	e     *Engine
	plan  scenarios.StreamPlan
	began time.Time

	due, started, opened, ended, capped, missed atomic.Uint64 // sessions
	arrived, left                               atomic.Uint64 // arrivals: several sessions may come with one
	held                                        atomic.Int64

	mu   sync.Mutex
	next uint64 // closed model: number of the next session
}

func newStream(e *Engine, plan scenarios.StreamPlan) *stream { return &stream{e: e, plan: plan} }

// id is unique in the run.
func (s *stream) id(n uint64) string { return s.plan.Name + "/" + strconv.FormatUint(n, 10) }

// run lets sessions arrive when they are due, until ctx ends.
func (s *stream) run(ctx context.Context) {
	start := s.began
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n, at := range s.plan.Arrivals() {
		if s.plan.Arrival.Closed != nil {
			s.mu.Lock()
			s.next = max(s.next, n)
			s.mu.Unlock()
		}
		due := start.Add(at)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.arrive(n, due)
	}
}

// arrive begins session n, or counts why it was not begun.
func (s *stream) arrive(n uint64, due time.Time) {
	e := s.e
	all := s.sessions(n, e.history.Since(due))
	now := e.history.Now()
	if e.arrive.Err() != nil {
		return // the load has ended
	}
	many := uint64(len(all))
	s.due.Add(many)
	if limit := s.plan.Arrival.MaxHeld; limit > 0 && int(s.arrived.Load()-s.left.Load()) >= limit {
		s.capped.Add(many)
		return
	}
	if late := now - all[0].due; late > e.bounds.late {
		s.miss(all, now, fmt.Sprintf("not begun: %s late", late.Round(time.Millisecond)))
		return
	}
	s.begin(all, now)
}

// sessions are those that begin with arrival n: one, or all that share its connection.
func (s *stream) sessions(n uint64, due time.Duration) []*session {
	drawn := s.plan.Session(n, len(s.e.cfg.Users))
	how, _ := behaviourOf(drawn.Session)
	x := &session{e: s.e, stream: s, drawn: drawn, how: how, id: s.id(n), due: due}
	x.to.User = drawn.User
	if how.many {
		return x.bundled(drawn.Session.Channels)
	}
	return []*session{x}
}

// miss writes down a session that the generator could not begin in time.
func (s *stream) miss(all []*session, now time.Duration, why string) {
	for _, x := range all {
		s.missed.Add(1)
		out := x.about()
		out.Class, out.End, out.Reason, out.Want = history.Ours, now, why, x.drawn.Length
		out.Proxy, out.ProxyHow = history.PodRef{}, ""
		s.e.ledger.add(s.e, out)
	}
}

// begin starts an arrival's sessions, which take one way. The lateness counts until here.
func (s *stream) begin(all []*session, now time.Duration) {
	e := s.e
	if !e.admit(all) {
		s.due.Add(-uint64(len(all))) // the load ended in this moment
		return
	}
	s.arrived.Add(1)
	err := all[0].route()
	for _, x := range all {
		x.start = max(now, 1) // 0 means never
		x.to, x.via = all[0].to, all[0].via
		s.started.Add(1)
		e.ledger.began(now - x.due)
		x.entry = timers.Entry{Do: func() { go x.act() }}
	}
	for _, x := range all {
		if err != nil {
			x.refuse(err)
			continue
		}
		go x.dial(e.life)
	}
}

// routeStream keeps what picks the way apart from what a session draws for itself.
const routeStream = 2

// route picks the way: the node by the plan's draw, the proxy pod as kube-proxy would, any ready one alike.
func (x *session) route() error {
	t := x.e.cfg.Targets
	rng := rand.New(rand.NewPCG(x.drawn.Seed, routeStream))
	if x.stream.plan.Through == scenarios.ThroughService {
		x.to.Proxy, x.via = t.Service(), viaService
	} else if p, ok := pick(ready(t.Proxies()), rng.Float64()); ok {
		x.to.Proxy = p
	} else {
		return &openError{Phase: history.PhaseConnect, Cut: history.CutConnect, Err: errNoProxy}
	}
	switch x.drawn.Session.Kind {
	case scenarios.KubeExec, scenarios.KubePortForward:
		p, ok := pick(t.KubePods(), x.drawn.Agent)
		if x.to.Pod = p; !ok {
			return &openError{Phase: history.PhaseStream, Cut: history.CutUnrouted, Err: errNoPod}
		}
		return nil
	case scenarios.KubeWatch, scenarios.KubeAPI:
		// They go to the API server; a pod only tells in which namespace there is something to see.
		if p, ok := pick(t.KubePods(), x.drawn.Agent); ok {
			x.to.Namespace = p.Target.Namespace
		}
		return nil
	}
	a, ok := pick(t.Agents(), x.drawn.Agent)
	if x.to.Node = a; !ok {
		return &openError{Phase: history.PhaseRoute, Cut: history.CutUnrouted, Err: errNoAgent}
	}
	return nil
}

// ready gives the proxies behind the Service, in an order that does not depend on the watch.
func ready(all []Proxy) []Proxy {
	out := make([]Proxy, 0, len(all))
	for _, p := range all {
		if p.Ready {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Proxy) int {
		return cmp.Or(cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return out
}

// pick takes one by a number from 0 to 1.
func pick[T any](from []T, at float64) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[min(int(at*float64(len(from))), len(from)-1)], true
}

// refusedPause is how long at least a refused session's replacement waits in the closed model: without it a system
// that is down would be hammered as fast as it can say no.
const refusedPause = time.Second

// replace begins the closed model's next session, when one has ended.
func (s *stream) replace(class history.Class) {
	c := s.plan.Arrival.Closed
	if c == nil || s.e.arrive.Err() != nil {
		return
	}
	s.mu.Lock()
	s.next = max(s.next, uint64(c.Held)) + 1
	n := s.next
	s.mu.Unlock()
	pause := s.plan.Think(n)
	if class == history.Refused || class == history.Ours {
		pause = max(pause, refusedPause)
	}
	due := time.Now().Add(pause)
	if s.plan.For > 0 && due.Sub(s.began) >= s.plan.Start.Duration()+s.plan.For.Duration() {
		return
	}
	if pause == 0 {
		s.arrive(n, due)
		return
	}
	s.e.queue.Set(&timers.Entry{Do: func() { go s.arriveLater(n, due) }}, due)
}

func (s *stream) arriveLater(n uint64, due time.Time) {
	s.arrive(n, due)
}

// target is the rate per second aimed at now (open model), or the number held (closed).
func (s *stream) target(now time.Time) float64 {
	at := now.Sub(s.began) - s.plan.Start.Duration()
	if at < 0 || s.plan.For > 0 && at >= s.plan.For.Duration() {
		return 0
	}
	if c := s.plan.Arrival.Closed; c != nil {
		if over := c.Over.Duration(); at < over {
			return float64(c.Held) * float64(at) / float64(over)
		}
		return float64(c.Held)
	}
	for _, l := range s.plan.Arrival.Open.Legs {
		if l.For == 0 {
			return l.To
		}
		if at < l.For.Duration() {
			return l.From + (l.To-l.From)*float64(at)/float64(l.For)
		}
		at -= l.For.Duration()
	}
	return 0
}

func (s *stream) sample(now time.Time) history.StreamSample {
	return history.StreamSample{
		Name: s.plan.Name, Target: s.target(now), Due: s.due.Load(), Started: s.started.Load(), Opened: s.opened.Load(),
		Ended: s.ended.Load(), Capped: s.capped.Load(), Missed: s.missed.Load(), Held: int(s.held.Load()),
	}
}
