package process

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/standin/faults"
)

// beat is one heartbeat, or the passing of time.
type beat struct {
	who  string
	err  error
	pass time.Duration
}

var errBeat = errors.New("auth is away")

func TestReadyz(t *testing.T) {
	ok, bad := beat{who: "node"}, beat{who: "node", err: errBeat}
	for _, row := range []struct {
		name  string
		beats []beat
		code  int
		state State
	}{
		{"before the first heartbeat it is starting", nil, 400, Starting},
		{"one good heartbeat makes it ready", []beat{ok}, 200, OK},
		{"one bad heartbeat makes it degraded", []beat{ok, bad}, 503, Degraded},
		{"a first bad heartbeat too", []beat{bad}, 503, Degraded},
		{"a good one after a bad one is recovering", []beat{ok, bad, ok}, 400, Recovering},
		{"ten seconds of good ones are not enough", []beat{ok, bad, ok, {pass: 10 * time.Second}, ok}, 400, Recovering},
		{"more than ten are", []beat{ok, bad, ok, {pass: 10*time.Second + 1}, ok}, 200, OK},
		{"another component that is starting holds it back", []beat{ok, {who: "+proxy"}}, 400, Starting},
		{"the worst component counts", []beat{ok, {who: "proxy", err: errBeat}}, 503, Degraded},
		{"during a drain nothing moves any more", []beat{ok, {who: "freeze"}, bad}, 200, OK},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			h := NewHealth(1, nil)
			h.now = func() time.Time { return now }
			h.Expect("node")
			for _, b := range row.beats {
				switch {
				case b.pass > 0:
					now = now.Add(b.pass)
				case b.who == "freeze":
					h.Freeze()
				case b.who == "+proxy":
					h.Expect("proxy")
				default:
					h.Heartbeat(b.who, b.err)
				}
			}
			if got := readyz(t, h); got != row.code || h.State() != row.state {
				t.Errorf("got %d and state %d, want %d and %d", got, h.State(), row.code, row.state)
			}
		})
	}
}

func readyz(t *testing.T, h *Health) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeReady(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	var body struct{ Status string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Status == "" {
		t.Errorf("body %q: %v", w.Body, err)
	}
	return w.Code
}

func TestReadyzLiesWhereAFaultSaysSo(t *testing.T) {
	for _, row := range []struct {
		fault faults.Name
		beat  error
		want  int
	}{
		{faults.ReadyWhileDead, errBeat, 200},
		{faults.UnreadyWhileAlive, nil, 503},
	} {
		r := faults.New(nil, faults.Rule{Name: row.fault})
		h := NewHealth(1, r)
		h.Heartbeat("node", row.beat)
		if got := readyz(t, h); got != row.want {
			t.Errorf("%s: got %d, want %d", row.fault, got, row.want)
		}
		if e := r.Entries(); len(e) != 1 || e[0].Fault != row.fault {
			t.Errorf("%s: recorded %v", row.fault, e)
		}
		r.Clear(row.fault)
		if got := readyz(t, h); got == row.want {
			t.Errorf("%s: the lie goes on after it was cleared", row.fault)
		}
	}
}

// fakeService takes work seconds to drain.
type fakeService struct {
	work            time.Duration
	drained, closed time.Duration
	began           time.Time
}

func (f *fakeService) Start(context.Context) error { return nil }
func (f *fakeService) Drain(ctx context.Context) error {
	select {
	case <-time.After(f.work):
		f.drained = time.Since(f.began)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (f *fakeService) Close() error {
	f.closed = time.Since(f.began)
	return nil
}

func TestStopFollowsTheBehaviour(t *testing.T) {
	const work = 60 * time.Second // a session that would go on for a minute
	for _, row := range []struct {
		name, version string
		rule          func(Behaviour) StopRule
		closedAfter   time.Duration
		drained       bool
	}{
		{"13-dev closes at once on TERM", "13-dev", func(b Behaviour) StopRule { return b.Term }, 0, false},
		{"13-dev drains without end on QUIT", "13-dev", func(b Behaviour) StopRule { return b.Quit }, work, true},
		{"14 drains for three seconds on TERM", "14", func(b Behaviour) StopRule { return b.Term }, 3 * time.Second, false},
		{"14 drains without end on QUIT", "14", func(b Behaviour) StopRule { return b.Quit }, work, true},
		{"17 drains for five seconds on TERM", "17", func(b Behaviour) StopRule { return b.Term }, 5 * time.Second, false},
		{"17 drains for up to 30 hours on QUIT", "17", func(b Behaviour) StopRule { return b.Quit }, work, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := BehaviourByName(row.version)
				if err != nil {
					t.Fatal(err)
				}
				s := &Supervisor{Behaviour: b, Health: NewHealth(1, nil), Log: slog.New(slog.DiscardHandler)}
				svc := &fakeService{work: work, began: time.Now()}
				if err := s.Start(t.Context(), "node", svc); err != nil {
					t.Fatal(err)
				}
				if err := s.Stop(t.Context(), row.rule(b)); err != nil {
					t.Fatal(err)
				}
				if svc.closed != row.closedAfter || (svc.drained > 0) != row.drained {
					t.Errorf("closed after %s, drained %t; want %s, %t", svc.closed, svc.drained > 0, row.closedAfter, row.drained)
				}
			})
		})
	}
}

func TestNeverDrainStaysUntilItIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := faults.New(nil, faults.Rule{Name: faults.NeverDrain})
		s := &Supervisor{Faults: r, Health: NewHealth(1, r), Log: slog.New(slog.DiscardHandler)}
		svc := &fakeService{began: time.Now()}
		if err := s.Start(t.Context(), "node", svc); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // the kill
		defer cancel()
		if err := s.Stop(ctx, StopRule{}); err != nil {
			t.Fatal(err)
		}
		if svc.closed != time.Hour || len(r.Entries()) != 1 {
			t.Errorf("closed after %s with %d entries, want an hour and one", svc.closed, len(r.Entries()))
		}
	})
}

func TestNothingStartsWhileTheProcessStops(t *testing.T) {
	s := &Supervisor{Health: NewHealth(1, nil), Log: slog.New(slog.DiscardHandler)}
	if err := s.Stop(t.Context(), StopRule{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), "late", &fakeService{}); err == nil {
		t.Error("a service started after the stop")
	}
}

func TestScale(t *testing.T) {
	for _, row := range []struct {
		factor Scale
		want   time.Duration
	}{{0, time.Minute}, {1, time.Minute}, {60, time.Second}} {
		if got := row.factor.Of(time.Minute); got != row.want {
			t.Errorf("a minute at factor %v is %s, want %s", row.factor, got, row.want)
		}
	}
}

func TestUnknownBehaviourListsTheKnown(t *testing.T) {
	_, err := BehaviourByName("12")
	if err == nil || err.Error() != `cannot behave as "12", known are 13-dev 14 17` {
		t.Errorf("got %v", err)
	}
}
