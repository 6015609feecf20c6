package run

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/prometheus"
)

// askTime bounds the asking of all queries.
const askTime = 30 * time.Second

// plotPoints is about how many points a series of a plot has.
const plotPoints = 300

// askPrometheus asks the scenario's Prometheus its queries and writes the answers down. That one could not be had is
// an answer too: its gates are inconclusive.
func (t *trial) askPrometheus(ctx context.Context) error {
	p := t.plan.Prometheus
	if p == nil {
		return nil
	}
	return t.step("Asking "+p.URL, func() error {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		source, err := prometheus.Open(p.URL, t.dialerTo(p.URL))
		if err != nil {
			return err
		}
		for _, q := range p.Queries {
			t.state.Record(history.Event{Subject: q.Name, Data: t.ask(ctx, source, q)})
		}
		return nil
	})
}

// dialerTo: what has a name of the cluster's is reached from inside, all else from this machine.
func (t *trial) dialerTo(address string) func(ctx context.Context, network, address string) (net.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	host := u.Hostname()
	if strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".cluster.local") {
		return t.cluster.DialContext
	}
	return nil
}

func (t *trial) ask(ctx context.Context, source *prometheus.Source, q scenarios.Query) history.Prometheus {
	out := history.Prometheus{Name: q.Name, Query: q.Query}
	var err error
	if out.From, out.Until, err = t.phases.window(q, t.state.Now()); err != nil {
		out.Error = err.Error()
		return out
	}
	out.Query = strings.ReplaceAll(q.Query, "$window", promDuration(out.Until-out.From))
	begin := time.Now().Add(-t.state.Now())
	if !q.Plot {
		v, err := source.Value(ctx, out.Query, begin.Add(out.Until))
		if out.Found, out.Value = v.Found, v.Number; err != nil {
			out.Error = err.Error()
		}
		return out
	}
	series, err := source.Range(ctx, out.Query, begin.Add(out.From), begin.Add(out.Until), max((out.Until-out.From)/plotPoints, time.Second).Round(time.Second))
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for _, s := range series {
		one := history.PrometheusSeries{Labels: s.Labels}
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				one.T, one.V = append(one.T, p.At.Sub(begin).Seconds()), append(one.V, p.Value)
			}
		}
		out.Series = append(out.Series, one)
	}
	out.Found = len(series) > 0
	if len(series) == 1 && len(out.Series[0].V) > 0 {
		out.Value = out.Series[0].V[len(out.Series[0].V)-1]
	}
	return out
}

// promDuration gives a length as PromQL writes it; a range must be at least a second.
func promDuration(d time.Duration) string {
	return fmt.Sprintf("%ds", max(int(math.Ceil(d.Seconds())), 1))
}

// phases remembers when the entries of the timeline ran.
type phases struct {
	mu   sync.Mutex
	runs map[string][2]time.Duration // first start, last end (0: runs still)
}

// tap reads along what goes into the history.
func (p *phases) tap(e history.Event) {
	d, ok := e.Data.(history.Entry)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[string][2]time.Duration{}
	}
	r, seen := p.runs[d.Name]
	switch d.State {
	case history.EntryStarted:
		if !seen {
			r[0] = e.At
		}
		r[1] = 0
		p.runs[d.Name] = r
	case history.EntryEnded:
		r[1] = e.At
		p.runs[d.Name] = r
	}
}

// window is what a query looks at: a phase, the time after it, or from the first phase's start to the last one's end.
func (p *phases) window(q scenarios.Query, now time.Duration) (from, until time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, last := now, time.Duration(0)
	for _, r := range p.runs {
		first, last = min(first, r[0]), max(last, r[1])
	}
	if last == 0 {
		last = now
	}
	if q.During == "" && q.After == "" {
		return first, last, nil
	}
	r, ok := p.runs[q.During+q.After]
	switch {
	case !ok:
		return 0, 0, fmt.Errorf("phase %s never began", q.During+q.After)
	case q.During != "" && r[1] == 0:
		return r[0], last, nil
	case q.During != "":
		return r[0], r[1], nil
	case r[1] == 0 || last <= r[1]:
		return 0, 0, fmt.Errorf("nothing was watched after %s", q.After)
	}
	return r[1], last, nil
}
