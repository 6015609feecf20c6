package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
)

// scrape is one value of one metric of one pod.
type scrape struct {
	at time.Duration
	v  float64
}

// scraped are the scrapes of one metric, by pod.
type scraped map[int32][]scrape

func (l *ledger) addMetrics(at time.Duration, d history.Metrics) {
	pod := l.pod(d.Pod)
	if pod < 0 || d.Error != "" {
		return
	}
	for name, v := range d.Values {
		if l.metrics[name] == nil {
			l.metrics[name] = scraped{}
		}
		l.metrics[name][pod] = append(l.metrics[name][pod], scrape{at, v})
	}
}

// Metric gives what scrapes of one metric showed in a window.
func (v view) Metric(f gates.Filter, w gates.Window) (gates.Metric, error) {
	windows, err := v.m.l.spans(w)
	if err != nil {
		return gates.Metric{}, err
	}
	m, ok := v.m.l.metric(f.Metric, f.Component, windows)
	if !ok {
		of := "any pod"
		if f.Component != "" {
			of = "a pod of " + f.Component
		}
		return m, fmt.Errorf("no scrape of %s gave %s %s: %w", of, f.Metric, w, gates.ErrNoSamples)
	}
	return m, nil
}

// metric sums a metric up over the pods of a component (empty: all); false if nothing was scraped.
func (l *ledger) metric(name, component string, windows []span) (gates.Metric, bool) {
	m := gates.Metric{Min: math.Inf(1), Max: math.Inf(-1), Last: math.Inf(-1), Growth: math.Inf(-1), PerSession: math.NaN()}
	for _, pod := range l.podsOf(l.metrics[name], component) {
		all := slices.DeleteFunc(slices.Clone(l.metrics[name][pod]), func(s scrape) bool { return !inAny(windows, s.at) })
		if len(all) == 0 {
			continue
		}
		m.Pods++
		m.Count += len(all)
		first, last := all[0], all[len(all)-1]
		for _, s := range all {
			m.Min, m.Max = min(m.Min, s.v), max(m.Max, s.v)
		}
		m.Last, m.Growth = max(m.Last, last.v), max(m.Growth, last.v-first.v)
		m.Increase += increase(all, l.bornIn(pod, windows))
		if left, ok := l.leftBehind(pod, all); ok && (math.IsNaN(m.PerSession) || left.each > m.PerSession) {
			m.PerSession = left.each
		}
	}
	return m, m.Count > 0
}

// podsOf are the scraped pods of a component in a fixed order.
func (l *ledger) podsOf(of scraped, component string) []int32 {
	var out []int32
	for pod := range of {
		if component == "" || l.pods[pod].ref.Component == component {
			out = append(out, pod)
		}
	}
	slices.Sort(out)
	return out
}

// bornIn: all that the counters of a pod show that was made in the window, they have counted in it.
func (l *ledger) bornIn(pod int32, windows []span) bool {
	p := l.pods[pod]
	return p.created > 0 && inAny(windows, p.created)
}

// increase of a counter that begins anew with its process.
func increase(all []scrape, fromZero bool) (sum float64) {
	before := all[0].v
	if fromZero {
		before = 0
	}
	for _, s := range all {
		if s.v < before {
			before = 0
		}
		sum += s.v - before
		before = s.v
	}
	return sum
}

// Fewer sessions, or fewer that ended before the last scrape, tell nothing of a leak.
const (
	leastEnded   = 20
	leastScrapes = 8
)

// leftover is what each session that ended left behind in a pod.
type leftover struct {
	each float64 // the best guess
	// sure is what it is at least: what the guess, and the guess of each half of the time, allow. A leak goes on, what
	// is started once shows in one half alone.
	sure float64
}

// leftBehind is told by v ≈ a + each·ended + per·held by least squares over the scrapes since the pod's first session
// and before it was to end, so that what sessions take while they are held is not taken for a leak, nor what the pod
// began with, nor what a pod that ends no longer gives back.
func (l *ledger) leftBehind(pod int32, all []scrape) (leftover, bool) {
	through := l.through(pod)
	if len(through.opens) == 0 {
		return leftover{}, false
	}
	ends := l.pods[pod].deleting
	all = slices.DeleteFunc(slices.Clone(all), func(s scrape) bool { return s.at < through.opens[0] || ends != never && s.at >= ends })
	whole := through.fit(all)
	each, ok := whole.slope()
	if len(all) < leastScrapes || whole.maxX-whole.minX < leastEnded || !ok {
		return leftover{}, false
	}
	left := leftover{each, each - whole.doubt(each)}
	for _, half := range [][]scrape{all[:len(all)/2], all[len(all)/2:]} {
		fit := through.fit(half)
		part, ok := fit.slope()
		if !ok {
			left.sure = math.Inf(-1)
			continue
		}
		left.sure = min(left.sure, part)
	}
	return left, true
}

// fit is the plane of scrapes over the sessions that had ended and were held.
func (s sweep) fit(all []scrape) *plane {
	fit := newPlane(len(all))
	for _, x := range all {
		opened, ended := countTo(s.opens, x.at), countTo(s.ends, x.at)
		fit.add(float64(ended), float64(opened-ended), x.v)
	}
	return fit
}

// through are the moments at which sessions opened and ended that went through the pod, or to it.
func (l *ledger) through(pod int32) sweep {
	if s, ok := l.podSweeps[pod]; ok {
		return s
	}
	var s sweep
	for i := range l.sessions {
		if x := &l.sessions[i]; x.open > 0 && (x.proxy == pod || x.agent == pod) {
			s.opens, s.ends = append(s.opens, x.open), append(s.ends, x.end)
		}
	}
	slices.Sort(s.opens)
	slices.Sort(s.ends)
	l.podSweeps[pod] = s
	return s
}

func countTo(sorted []time.Duration, at time.Duration) int {
	n, _ := slices.BinarySearchFunc(sorted, at, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return n
}

// plane fits z = a + b·x + c·y.
type plane struct {
	x, y, z    []float64
	minX, maxX float64
}

func newPlane(n int) *plane {
	return &plane{x: make([]float64, 0, n), y: make([]float64, 0, n), z: make([]float64, 0, n), minX: math.Inf(1), maxX: math.Inf(-1)}
}

func (p *plane) add(x, y, z float64) {
	p.x, p.y, p.z = append(p.x, x), append(p.y, y), append(p.z, z)
	p.minX, p.maxX = min(p.minX, x), max(p.maxX, x)
}

// spread are the sums of squares about the means.
func (p *plane) spread() (xx, xy, yy, xz, yz float64) {
	mx, my, mz := mean(p.x), mean(p.y), mean(p.z)
	for i := range p.x {
		x, y, z := p.x[i]-mx, p.y[i]-my, p.z[i]-mz
		xx, xy, yy, xz, yz = xx+x*x, xy+x*y, yy+y*y, xz+x*z, yz+y*z
	}
	return xx, xy, yy, xz, yz
}

// slope is b; false where x and y rise together, so that nobody can tell them apart.
func (p *plane) slope() (float64, bool) {
	xx, xy, yy, xz, yz := p.spread()
	switch det := xx*yy - xy*xy; {
	case xx == 0:
		return 0, false
	case yy == 0: // always as many held
		return xz / xx, true
	case det < 0.05*xx*yy:
		return 0, false
	default:
		return (xz*yy - yz*xy) / det, true
	}
}

// doubt is by how much b may be too large: two standard errors.
func (p *plane) doubt(b float64) float64 {
	xx, xy, yy, _, yz := p.spread()
	c := 0.0
	if yy > 0 {
		c = (yz - b*xy) / yy
	}
	mx, my, mz := mean(p.x), mean(p.y), mean(p.z)
	rest := 0.0
	for i := range p.x {
		r := (p.z[i] - mz) - b*(p.x[i]-mx) - c*(p.y[i]-my)
		rest += r * r
	}
	free := xx // of what y does not explain
	if yy > 0 {
		free -= xy * xy / yy
	}
	return 2 * math.Sqrt(rest/float64(max(len(p.x)-3, 1))/free)
}

func mean(of []float64) (m float64) {
	for _, v := range of {
		m += v / float64(len(of))
	}
	return m
}

// MetricRow is one metric of one component over the whole run, as reports show it.
type MetricRow struct {
	gates.Metric
	Type       metrics.Type `json:"type"`
	Meaning    string       `json:"meaning"`
	PerSession *float64     `json:"perSession,omitempty"` // nil: not known
}

// metricTable has every metric of the table that was scraped, by component and name.
func (l *ledger) metricTable() map[string]map[string]MetricRow {
	out := map[string]map[string]MetricRow{}
	for _, about := range metrics.Table() {
		for _, component := range l.scrapedComponents(about.Name) {
			m, ok := l.metric(about.Name, component, []span{l.whole()})
			if !ok {
				continue
			}
			if out[component] == nil {
				out[component] = map[string]MetricRow{}
			}
			row := MetricRow{Metric: m, Type: about.Type, Meaning: about.Meaning}
			if about.Type == metrics.Gauge && !math.IsNaN(m.PerSession) {
				row.PerSession = &m.PerSession
			}
			out[component][about.Name] = row
		}
	}
	return out
}

func (l *ledger) scrapedComponents(name string) []string {
	var out []string
	for pod := range l.metrics[name] {
		if c := l.pods[pod].ref.Component; !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return out
}
