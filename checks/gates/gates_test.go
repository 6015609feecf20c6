package gates

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var names = Names{
	Components: []string{"auth", "proxy"},
	Phases:     []string{"warmup", "rollout", "drain", "recovery"},
	Streams:    []string{"terminals", "kubectl"},
	Kinds:      []string{"ssh", "kube-exec"},
	Queries:    []string{"failedDials", "silent"},
	Metrics:    []string{"go_goroutines", "process_resident_memory_bytes", "audit_failed_emit_events"},
}

// fakeData answers from tables; a window without an entry has no samples.
type fakeData struct {
	sessions map[string]Sessions
	latency  map[string]Latency
	recovery Recovery
	panics   bool
}

func (f fakeData) Capacity(c string, w Window) (Capacity, error) {
	if c == "auth" || w.Kind != Whole {
		return Capacity{}, fmt.Errorf("capacity of %s %s: %w", c, w, ErrNoSamples)
	}
	return Capacity{Desired: 3, Min: 2, MinReady: 2, LossRatio: 0.125, ReplicaSecondsLost: 12.5}, nil
}

func (f fakeData) SecondsBelow(_ string, share float64, _ Window) (float64, error) {
	return 10 * share, nil
}

func (f fakeData) Sessions(flt Filter, w Window) (Sessions, error) {
	if f.panics {
		panic("no such table")
	}
	s, ok := f.sessions[strings.TrimSpace(flt.Stream+" "+w.String())]
	if !ok {
		return s, fmt.Errorf("sessions %s: %w", w, ErrNoSamples)
	}
	return s, nil
}

func (f fakeData) Recordings(flt Filter, _ Window) (Recordings, error) {
	if flt.Mode == "proxy" {
		return Recordings{Expected: 9, Missing: 4}, nil
	}
	switch flt.Mode {
	case "node-sync":
		return Recordings{Expected: 5, Pending: 5}, nil
	case "proxy-sync":
		return Recordings{Expected: 9, Complete: 4, Missing: 2, Pending: 3}, nil
	}
	return Recordings{Expected: 40, Complete: 37, Truncated: 3}, nil
}

func (f fakeData) Latency(name string, w Window) (Latency, error) {
	l, ok := f.latency[name+" "+w.String()]
	if !ok {
		return l, fmt.Errorf("latency of %s %s: %w", name, w, ErrNoSamples)
	}
	return l, nil
}

func (f fakeData) Goodput(Filter, Window) (Goodput, error) {
	return Goodput{Offered: 200, Opened: 190, Ratio: 0.95}, nil
}

func (f fakeData) Recovery() (Recovery, error) { return f.recovery, nil }

func (f fakeData) Metric(flt Filter, w Window) (Metric, error) {
	switch {
	case flt.Component == "auth":
		return Metric{}, fmt.Errorf("%s of auth: %w", flt.Metric, ErrNoSamples)
	case w.Kind == During:
		return Metric{Count: 20, Max: 90, PerSession: math.NaN()}, nil
	}
	return Metric{Count: 60, Pods: 3, Max: 120, Growth: 30, PerSession: 2}, nil
}

func (f fakeData) Prometheus(query string) (float64, error) {
	if query == "silent" {
		return 0, fmt.Errorf("prometheus has no data for %s: %w", query, ErrNoSamples)
	}
	return 3, nil
}

func data() fakeData {
	return fakeData{
		sessions: map[string]Sessions{
			"the whole run": {Opened: 500, Dropped: 7},
			"during warmup": {Opened: 100},
			"1m0s after drain": {
				Opened: 60, Dropped: 1,
			},
			"kubectl during warmup": {Opened: 20, Dropped: 2},
		},
		latency:  map[string]Latency{"terminals after recovery": {Count: 90, P99: 420 * time.Millisecond}},
		recovery: Recovery{Recovered: true, Seconds: 31},
	}
}

func TestEval(t *testing.T) {
	unrecovered := data()
	unrecovered.recovery = Recovery{Seconds: 90}
	crashing := data()
	crashing.panics = true
	margin := func(f float64) *float64 { return &f }
	for _, tt := range []struct {
		says   string
		expr   string
		data   fakeData
		want   Outcome
		value  any
		margin *float64
	}{
		{"a bound that holds passes with its margin", "capacity.proxy.min >= 2", data(), Pass, int64(2), margin(0)},
		{"a bound that does not hold fails with a negative margin", "sessions.dropped <= 5", data(), Fail, int64(7), margin(-2)},
		{"a double compares with an integer bound", "capacity.proxy.lossRatio < 1", data(), Pass, 0.125, margin(0.875)},
		{"a window before the field", `sessions.during("warmup").dropped == 0`, data(), Pass, int64(0), margin(0)},
		{"a window behind the field means the same", `sessions.dropped.during("warmup") == 0`, data(), Pass, int64(0), margin(0)},
		{"a window of a given length", `sessions.after("drain", duration("60s")).dropped == 0`, data(), Fail, int64(1), margin(-1)},
		{"a window of a given length behind the field", `sessions.dropped.after("drain", duration("60s")) == 1`, data(), Pass, int64(1), margin(0)},
		{"a stream and a window together", `sessions.stream("kubectl").dropped.during("warmup") == 2`, data(), Pass, int64(2), margin(0)},
		{"a window without samples is inconclusive, though its count would be 0", `sessions.during("drain").dropped == 0`, data(), Inconclusive, nil, nil},
		{"a component without samples is inconclusive", "capacity.auth.min >= 1", data(), Inconclusive, nil, nil},
		{"no sample on the second side of an or is inconclusive too", `sessions.dropped == 7 || sessions.during("drain").dropped == 0`, data(), Inconclusive, nil, nil},
		{"no sample on the first side of an or is inconclusive too", `sessions.during("drain").dropped == 0 || sessions.dropped == 7`, data(), Inconclusive, nil, nil},
		{"a conjunction with one false term fails, whatever the other", `sessions.during("drain").dropped == 0 && sessions.dropped == 0`, data(), Fail, int64(7), margin(-7)},
		{"latency is a duration, its margin in seconds", `latency("terminals").after("recovery").p99 <= duration("500ms")`, data(), Pass, "420ms", margin(0.08)},
		{"latency with the window behind the field", `latency("terminals").p99.after("recovery") <= duration("400ms")`, data(), Fail, "420ms", margin(-0.02)},
		{"a conjunction shows all its values and the smallest margin", "recordings.missing == 0 && recordings.truncated == 0", data(), Fail, "recordings.missing = 0, recordings.truncated = 3", margin(-3)},
		{"recordings of one mode", `recordings.mode("proxy").missing == 0`, data(), Fail, int64(4), margin(-4)},
		{"all recordings pending, and all of them are to be complete", `recordings.mode("node-sync").complete == recordings.mode("node-sync").expected`, data(), Inconclusive, int64(0), margin(-5)},
		{"none is missing, but some are pending and may be", `recordings.mode("node-sync").missing == 0`, data(), Inconclusive, int64(0), margin(0)},
		{"none is pending is asked while some are", `recordings.mode("node-sync").pending == 0`, data(), Inconclusive, int64(5), margin(-5)},
		{"some are missing already, whatever becomes of those pending", `recordings.mode("proxy-sync").missing == 0`, data(), Fail, int64(2), margin(-2)},
		{"as few as the pending ones can make it", `recordings.mode("proxy-sync").missing <= 4`, data(), Inconclusive, int64(2), margin(2)},
		{"more than the pending ones can make it", `recordings.mode("proxy-sync").missing <= 5`, data(), Pass, int64(2), margin(3)},
		{"exactly what some of the pending ones would make it", `recordings.mode("proxy-sync").missing == 3`, data(), Inconclusive, int64(2), margin(-1)},
		{"no recording could turn what the sessions fail", `recordings.mode("node-sync").missing == 0 && sessions.dropped == 0`, data(), Fail, `recordings.mode("node-sync").missing = 0, sessions.dropped = 7`, margin(-7)},
		{"seconds below a share", "capacity.proxy.secondsBelow(0.5) <= 6.0", data(), Pass, 5.0, margin(1)},
		{"a metric of all pods", `metrics("go_goroutines").max <= 150`, data(), Pass, 120.0, margin(30)},
		{"what sessions leave behind in the proxies", `metrics("go_goroutines").of("proxy").perSession < 0.5`, data(), Fail, 2.0, margin(-1.5)},
		{"a metric within a window, behind the field", `metrics("go_goroutines").max.during("warmup") < 100`, data(), Pass, 90.0, margin(10)},
		{"a metric that no pod gave is inconclusive, not zero", `metrics("audit_failed_emit_events").of("auth").increase == 0.0`, data(), Inconclusive, nil, nil},
		{"too few sessions to tell what they leave behind", `metrics("go_goroutines").during("warmup").perSession < 0.5`, data(), Inconclusive, nil, nil},
		{"what a Prometheus answered", `prometheus("failedDials") <= 5.0`, data(), Pass, 3.0, margin(2)},
		{"a Prometheus that has no data is inconclusive", `prometheus("silent") <= 5.0`, data(), Inconclusive, nil, nil},
		{"recovery in time passes", "recovery.seconds <= 60", data(), Pass, 31.0, margin(29)},
		{"no recovery for longer than the bound fails", "recovery.seconds <= 60", unrecovered, Fail, 90.0, margin(-30)},
		{"no recovery, but not watched for as long as the bound, is inconclusive", "recovery.seconds <= 120", unrecovered, Inconclusive, 90.0, margin(30)},
		{"a crash is inconclusive", "sessions.dropped == 0", crashing, Inconclusive, nil, nil},
		{"a division by zero is inconclusive", "1 / sessions.clean == 0", data(), Inconclusive, nil, nil},
	} {
		t.Run(tt.says, func(t *testing.T) {
			ps, err := Compile([]Gate{{Name: "g", Expr: tt.expr}}, names)
			if err != nil {
				t.Fatal(err)
			}
			got := ps[0].Eval(tt.data)
			if got.Outcome != tt.want {
				t.Errorf("outcome %s, want %s (%+v)", got.Outcome, tt.want, got)
			}
			if got.Outcome == Inconclusive && got.Detail == "" {
				t.Error("inconclusive without a reason")
			}
			if diff := cmp.Diff(tt.value, got.Value); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.margin, got.Margin, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
				t.Errorf("margin (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ says, expr, want string }{
		{"an unknown top name", "sesions.dropped == 0", `gate "g": 1:1: unknown name "sesions"; did you mean sessions?`},
		{"an unknown field", "sessions.droped == 0", `gate "g": 1:9: unknown field "droped" of sessions; did you mean dropped?`},
		{"an unknown component", "capacity.proxi.min >= 2", `gate "g": 1:9: unknown component "proxi" of capacities; did you mean proxy?`},
		{"a component far from all lists them", "capacity.gateway.min >= 2", `gate "g": 1:9: unknown component "gateway" of capacities; there is auth, proxy`},
		{"an unknown phase", `sessions.during("warm-up").dropped == 0`, `gate "g": 1:17: unknown phase "warm-up"; did you mean warmup?`},
		{"an unknown phase behind the field", `sessions.dropped.during("drian") == 0`, `gate "g": 1:25: unknown phase "drian"; did you mean drain?`},
		{"an unknown stream", `latency("terminal").p99 < duration("1s")`, `gate "g": 1:9: unknown stream or kind of session "terminal"; did you mean terminals?`},
		{"an unknown metric", `metrics("go_gorutines").max < 1.0`, `gate "g": 1:9: unknown metric "go_gorutines"; did you mean go_goroutines?`},
		{"an unknown component of a metric", `metrics("go_goroutines").of("proxi").max < 1.0`, `gate "g": 1:29: unknown component "proxi"; did you mean proxy?`},
		{"an unknown query", `prometheus("failedDial") < 1.0`, `gate "g": 1:12: unknown query "failedDial"; did you mean failedDials?`},
		{"an unknown function", `sessions.whilst("warmup").dropped == 0`, `gate "g": 1:16: sessions has no function "whilst"; there is after, before, during, kind, stream`},
		{"a phase that is not written out", `sessions.during("a" + "b").dropped == 0`, `gate "g": 1:16: the name of a phase must be written out in quotes`},
		{"a value instead of a condition", "sessions.dropped", `gate "g": 1:1: the expression gives int, not bool; compare it with a bound, as in sessions.dropped == 0`},
		{"a type that cannot be compared", `sessions.dropped == "none"`, `gate "g": 1:18: found no matching overload for '_==_' applied to '(int, string)'`},
		{"a syntax error on the second line", "sessions.dropped == 0 &&\n  )", `gate "g": 2:3: Syntax error: mismatched input ')'`},
	} {
		t.Run(tt.says, func(t *testing.T) {
			_, err := Compile([]Gate{{Name: "g", Expr: tt.expr}}, names)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestCompileTellsAllProblemsAtOnce(t *testing.T) {
	_, err := Compile([]Gate{{"a", "sessions.lost == 0 && recordings.gone == 0"}, {"b", "1"}}, names)
	if ps, ok := err.(Problems); !ok || len(ps) != 3 {
		t.Errorf("want 3 problems, got %v", err)
	}
}

type fakeWorld struct {
	updated float64
	err     error
}

func (w fakeWorld) Rollout(string) (RolloutView, error) {
	return RolloutView{Started: true, Updated: w.updated}, w.err
}

func (w fakeWorld) Pods(sel map[string]string) (PodsView, error) {
	if sel["revision"] == "old" {
		return PodsView{Total: 1}, w.err
	}
	return PodsView{Total: 3, Ready: 2, Serving: 2}, w.err
}

func (w fakeWorld) Sessions() (SessionsView, error) { return SessionsView{Held: 250}, nil }
func (w fakeWorld) Recovered() (bool, error)        { return w.updated == 1, w.err }
func (w fakeWorld) Elapsed() time.Duration          { return 40 * time.Second }

func TestCondition(t *testing.T) {
	unknown := fakeWorld{err: fmt.Errorf("the watch is broken")}
	for _, tt := range []struct {
		says    string
		expr    string
		world   fakeWorld
		holds   bool
		wantErr string
	}{
		{"half updated", `rollout("proxy").updated >= 0.5`, fakeWorld{updated: 0.5}, true, ""},
		{"a third updated", `rollout("proxy").updated >= 0.5`, fakeWorld{updated: 0.34}, false, ""},
		{"an integer bound", `rollout("proxy").updated >= 1`, fakeWorld{updated: 1}, true, ""},
		{"recovered", "recovered()", fakeWorld{updated: 1}, true, ""},
		{"not recovered", "recovered()", fakeWorld{}, false, ""},
		{"pods by component", `pods("proxy").ready == 2`, fakeWorld{}, true, ""},
		{"pods by selector", `pods({"component": "proxy", "revision": "old"}).total == 1`, fakeWorld{}, true, ""},
		{"held sessions", "sessions.held >= 200 && elapsed > duration('30s')", fakeWorld{}, true, ""},
		{"a negated unknown does not hold", "!recovered()", unknown, false, "the watch is broken"},
		{"an unknown beside a true does not hold", `sessions.held > 0 || recovered()`, unknown, false, "the watch is broken"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			c, err := CompileCondition(tt.expr, names)
			if err != nil {
				t.Fatal(err)
			}
			holds, _, err := c.Eval(tt.world)
			if holds != tt.holds {
				t.Errorf("holds = %t (%v)", holds, err)
			}
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestConditionSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ says, expr, want string }{
		{"an unknown component", `rollout("proxi").updated >= 0.5`, `1:9: unknown component "proxi"; did you mean proxy?`},
		{"an unknown field", `rollout("proxy").update >= 0.5`, `1:17: unknown field "update" of rollout; did you mean updated?`},
		{"an unknown function", "recoverd()", `1:9: unknown function "recoverd"; did you mean recovered?`},
		{"a gate's word is no condition's", "recordings.missing == 0", `1:1: unknown name "recordings"`},
	} {
		t.Run(tt.says, func(t *testing.T) {
			_, err := CompileCondition(tt.expr, names)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
