package timeline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// sink is a history in memory, on the clock of the test's bubble.
type sink struct {
	start time.Time
	mu    sync.Mutex
	all   []history.Event
}

func newSink() *sink { return &sink{start: time.Now()} }

func (s *sink) Now() time.Duration { return time.Since(s.start) }

func (s *sink) Record(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = s.Now()
	s.all = append(s.all, e)
}

// lines writes the history as one line a transition: moment, step, state, and what is said of it.
func (s *sink) lines() string {
	var b strings.Builder
	for _, e := range s.all {
		d := e.Data.(history.Entry)
		fmt.Fprintf(&b, "%s %s %s", e.At, e.Subject, d.State)
		if e.Outcome == history.Failed || e.Outcome == history.Unknown {
			fmt.Fprintf(&b, " %s", e.Outcome)
		}
		if late := e.Late(); late > 0 {
			fmt.Fprintf(&b, " late %s", late)
		}
		if d.OrElse != "" {
			fmt.Fprintf(&b, " else %s", d.OrElse)
		}
		if why := d.Error + d.Detail; why != "" {
			fmt.Fprintf(&b, ": %s", why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// act is what an action does: it takes so long, and ends so.
type act struct {
	takes time.Duration
	err   error
	deaf  bool // does not hear of ctx at once
}

type actor struct {
	acts map[string]act // by step name
	mu   sync.Mutex
	done []string // "moment id due"
	now  func() time.Duration
}

func (a *actor) Do(ctx context.Context, s scenarios.Step, due time.Duration) error {
	a.mu.Lock()
	a.done = append(a.done, fmt.Sprintf("%s %s due %s", a.now(), s.ID, due))
	a.mu.Unlock()
	do := a.acts[s.Name]
	if do.deaf {
		time.Sleep(do.takes)
		return do.err
	}
	select {
	case <-time.After(do.takes):
		return do.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// since says from when each condition holds; one that is not there is not known.
type since struct {
	now  func() time.Duration
	from map[string]time.Duration
}

func (c since) Holds(expr string) (bool, string, error) {
	from, known := c.from[expr]
	if !known {
		return false, "", fmt.Errorf("nobody knows %s", expr)
	}
	return c.now() >= from, fmt.Sprintf("%s at %s", expr, c.now()), nil
}

// steps plans a timeline as a scenario writes it.
func steps(t testing.TB, timeline string) []scenarios.Step {
	t.Helper()
	s, err := scenarios.Decode("test.yaml", []byte(`apiVersion: shakedown.dev/v1alpha1
kind: Scenario
metadata: {name: test, description: x}
spec:
  cluster: {nodes: 3}
  teleport: {from: {chart: standin, version: 1.0.0}, to: {version: 1.1.0}}
  load: [{name: a, session: {kind: ssh, behaviour: idle, length: 1m}, arrival: {closed: {held: 5}}}]
  expect: [{name: x, that: "true"}]
  limits: {pods: 1000, nodes: 1000}
  timeline:
`+timeline), scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := scenarios.NewPlan(s, scenarios.Facts{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p.Timeline
}
