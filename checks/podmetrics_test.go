package checks

import (
	"math"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
)

// scraped adds a scrape of each proxy a second, of what value gives by proxy, second, and sessions opened and ended.
func scrapedProxies(name string, value func(proxy int, at, opened, ended float64) float64) func(*world) {
	return func(w *world) {
		opens, ends := map[int][]time.Duration{}, map[int][]time.Duration{}
		w.sessions(func(s *history.Session) {
			i := int(s.Proxy.Name[len(s.Proxy.Name)-1] - '0')
			opens[i], ends[i] = append(opens[i], s.Open), append(ends[i], s.End)
		})
		before := func(of []time.Duration, t time.Duration) (n float64) {
			for _, at := range of {
				if at < t {
					n++
				}
			}
			return n
		}
		for t := time.Duration(0); t < 95*sec; t += sec {
			for i := 1; i <= 3; i++ {
				w.at(t, "", history.Metrics{Pod: proxy(i), Values: map[string]float64{name: value(i, t.Seconds(), before(opens[i], t), before(ends[i], t))}})
			}
		}
	}
}

func TestMetric(t *testing.T) {
	for _, tt := range []struct {
		says, name string
		value      func(proxy int, at, opened, ended float64) float64
		window     gates.Window
		want       gates.Metric
	}{
		{"what sessions take while they are held is not left behind", metrics.Goroutines,
			func(_ int, _, opened, ended float64) float64 { return 100 + 16*(opened-ended) }, gates.Window{},
			gates.Metric{Pods: 3, Count: 285, Min: 100, Max: 100 + 16*17, Last: 100, PerSession: 0}},
		{"the pod that leaks most counts", metrics.Goroutines,
			func(i int, _, _, ended float64) float64 { return 100 + float64(i)*ended }, gates.Window{},
			gates.Metric{Pods: 3, Count: 285, Min: 100, Max: 100 + 3*133, Last: 100 + 3*133, Growth: 3 * 133, Increase: math.NaN(), PerSession: 3}},
		{"counters of pods together, one of which began anew", "failed_connect_to_node_attempts_total",
			func(i int, at, _, _ float64) float64 {
				if i == 2 && at >= 40 {
					return at - 40
				}
				return at
			}, gates.Window{},
			gates.Metric{Pods: 3, Count: 285, Max: 94, Last: 94, Growth: 94, Increase: 94 + 94 + 39 + 54, PerSession: math.NaN()}},
		{"within a phase in which too few sessions ended to tell", metrics.Goroutines,
			func(int, float64, float64, float64) float64 { return 7 }, gates.Window{Kind: gates.During, Phase: "warmup"},
			gates.Metric{Pods: 3, Count: 60, Min: 7, Max: 7, Last: 7, PerSession: math.NaN()}},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := steady(scrapedProxies(tt.name, tt.value)).measure(t)
			got, err := m.Data().Metric(gates.Filter{Metric: tt.name, Component: "proxy"}, tt.window)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"pods", float64(got.Pods), float64(tt.want.Pods)}, {"count", float64(got.Count), float64(tt.want.Count)},
				{"min", got.Min, tt.want.Min}, {"max", got.Max, tt.want.Max}, {"last", got.Last, tt.want.Last},
				{"growth", got.Growth, tt.want.Growth},
			} {
				if math.Abs(c.got-c.want) > 1e-6 {
					t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
				}
			}
			if metrics.Type(tt.name) != "" && strings.HasSuffix(tt.name, "_total") {
				if got.Increase != tt.want.Increase {
					t.Errorf("increase is %v, want %v", got.Increase, tt.want.Increase)
				}
				return
			}
			if math.IsNaN(got.PerSession) != math.IsNaN(tt.want.PerSession) || math.Abs(got.PerSession-tt.want.PerSession) > 1e-6 {
				t.Errorf("a session leaves %v behind, want %v", got.PerSession, tt.want.PerSession)
			}
		})
	}
	m := steady().measure(t)
	if got, err := m.Data().Metric(gates.Filter{Metric: metrics.Goroutines}, gates.Window{}); err == nil {
		t.Errorf("nothing was scraped, and yet there is %+v", got)
	}
}

// TestAPodThatEndsLeaksNothing: its sessions are cut, and it does not live to give back what they took.
func TestAPodThatEndsLeaksNothing(t *testing.T) {
	ends := func(w *world) {
		w.at(80*sec, "", history.PodChange{Pod: proxy(1), State: history.PodDeleting, Grace: 30 * sec})
	}
	value := func(i int, at, o, e float64) float64 {
		if i == 1 && at >= 80 {
			return 2000
		}
		return 90 + 16*(o-e)
	}
	m := steady(scrapedProxies(metrics.Goroutines, value), ends).measure(t)
	got, err := m.Data().Metric(gates.Filter{Metric: metrics.Goroutines, Component: "proxy"}, gates.Window{})
	if err != nil || math.Abs(got.PerSession) > 1e-6 || got.Max != 2000 {
		t.Errorf("%+v, %v, want no session to leave anything behind", got, err)
	}
}

func TestLeaks(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		says  string
		world *world
		want  []string // part of each finding; none: nothing is said
		note  bool
	}{
		{"nothing was scraped", steady(), nil, false},
		{"goroutines come back", steady(scrapedProxies(metrics.Goroutines, func(_ int, _, o, e float64) float64 { return 90 + 16*(o-e) })), []string{"left no goroutines"}, false},
		{"a goroutine stays", steady(scrapedProxies(metrics.Goroutines, func(_ int, _, o, e float64) float64 { return 90 + 16*(o-e) + e })), []string{"left 1.0 goroutines behind in its proxy"}, true},
		{"a MiB stays", steady(scrapedProxies(metrics.HeapTarget, func(_ int, _, o, e float64) float64 { return 2 * (20*mib + mib*e) })), []string{"left about 1.0 MiB"}, true},
		{"what the canaries take begins with the first session", steady(scrapedProxies(metrics.Goroutines, func(_ int, _, o, e float64) float64 { return 90 + 16*(o-e) + min(o, 1)*30 })), []string{"left no goroutines"}, false},
		{"something is started once, in the middle", steady(scrapedProxies(metrics.Goroutines, func(_ int, at, o, e float64) float64 { return 90 + 16*(o-e) + map[bool]float64{true: 100}[at > 40] })), []string{"left no goroutines"}, false},
		{"it goes up and down by itself", steady(scrapedProxies(metrics.Goroutines, func(i int, at, o, e float64) float64 { return 90 + 16*(o-e) + 60*math.Sin(at/25+float64(i)) })), []string{"left no goroutines"}, false},
		{"a goroutine stays, and it goes up and down", steady(scrapedProxies(metrics.Goroutines, func(i int, at, o, e float64) float64 { return 90 + 16*(o-e) + e + 3*math.Sin(at) })), []string{"goroutines behind in its proxy"}, true},
		{"a cache fills and then is full", steady(scrapedProxies(metrics.HeapTarget, func(_ int, _, o, e float64) float64 { return 20*mib + mib*min(e, 5) })), []string{"left no goroutines"}, false},
	} {
		t.Run(tt.says, func(t *testing.T) {
			got := leaksNoted(tt.world.measure(t))
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v", got)
			}
			for i, f := range got {
				if !strings.Contains(f.Summary, tt.want[i]) || f.Note != tt.note || f.Outcome != Pass {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}
