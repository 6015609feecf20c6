package load

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/timers"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
)

func held(n int, s scenarios.Session) *scenarios.Plan {
	return plan(s, scenarios.Arrival{Closed: &scenarios.Closed{Held: n, Think: scenarios.Always(time.Hour)}})
}

// TestStopHasAnEnd: sessions that answer nothing are left when the time for stopping is over, and so is one that is
// still being opened; nothing of them stays behind, or synctest would say so.
func TestStopHasAnEnd(t *testing.T) {
	tests := []struct {
		because string
		fate    fate
	}{
		{"the terminal is frozen", fate{what: freeze, at: time.Second, lasting: time.Hour}},
		{"the shell never answered", fate{what: mute}},
		{"it is being opened", fate{latency: time.Hour}},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, m := fakeEngine(held(3, idle(time.Hour)), &fakeSystem{fate: func(int) fate { return tt.fate }}, someTargets())
				e.Start(context.Background())
				time.Sleep(2 * time.Second)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				stats := e.Stop(ctx)
				if took := m.Now(); took > 4*time.Second {
					t.Errorf("stopping took until %s", took)
				}
				time.Sleep(2 * time.Hour) // the fake system's openings
				for _, s := range payloads[history.Session](m) {
					if s.Class != history.Unfinished || s.Reason == "" || s.Failed != "" {
						t.Errorf("%s: %s %s %q", s.ID, s.Class, s.Failed, s.Reason)
					}
				}
				if stats.Ended != 3 || stats.Held != 0 || stats.Opening != 0 {
					t.Errorf("%+v", stats)
				}
			})
		})
	}
}

// TestStopIsNoStorm: a thousand sessions do not get the end of their input in one moment.
func TestStopIsNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, m := fakeEngine(held(1000, idle(time.Hour)), &fakeSystem{fate: func(int) fate { return fate{latency: 50 * time.Millisecond} }}, someTargets())
		e.Start(context.Background())
		time.Sleep(10 * time.Second)
		stop(e)
		ends := map[time.Duration]int{}
		for _, s := range payloads[history.Session](m) {
			if s.Class != history.Unfinished {
				t.Fatalf("%+v", s)
			}
			ends[s.End]++
		}
		for at, n := range ends {
			if n > endingAtOnce {
				t.Errorf("%d ended at %s", n, at)
			}
		}
	})
}

// TestOwnSleepIsNoSilence: while this program itself could not look, answers may have come; it reads them before it
// gives anybody up.
func TestOwnSleepIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := &fakeSystem{fate: func(int) fate { return fate{what: pause, at: 3 * time.Second, lasting: 7200 * time.Millisecond} }}
		e, m := fakeEngine(held(1, idle(20*time.Second)), system, someTargets())
		// From 5.5 s to 10 s the program is not scheduled, as on a machine that is overloaded.
		busy := timers.Entry{Do: func() { time.Sleep(4500 * time.Millisecond) }}
		e.queue.Set(&busy, time.Now().Add(5500*time.Millisecond))
		e.Start(context.Background())
		time.Sleep(time.Minute)
		stop(e)
		s := payloads[history.Session](m)[0]
		if s.Class != history.Clean || len(s.Gaps) == 0 {
			t.Errorf("got %s, %s (%s), gaps %v", s.Class, s.Cut, s.Reason, s.Gaps)
		}
	})
}

func TestOffersAndLimits(t *testing.T) {
	p := plan(idle(time.Second), scenarios.Arrival{Open: constant(5), MaxHeld: 30})
	p.Streams[0].PeakRate, p.Streams[0].Held = 5, 5
	p.Streams = append(p.Streams, plan(scenarios.Session{Kind: scenarios.KubeExec, Behaviour: "interactive"}, scenarios.Arrival{Closed: &scenarios.Closed{Held: 7}}).Streams[0])
	p.Streams[1].Held = 7
	p.Streams[1].Mix = append(p.Streams[1].Mix, p.Streams[0].Mix[0])
	got := Offers(p)
	if len(got) != 2 || got[0].Model != "open" || got[0].Rate != 5 || got[0].MaxHeld != 30 || got[0].Session != "ssh" || got[0].Behaviour != "idle" {
		t.Errorf("got %+v", got)
	}
	if got[1].Model != "closed" || got[1].Held != 7 || got[1].Session != "mix" || got[1].Behaviour != "mix" {
		t.Errorf("got %+v", got[1])
	}
	brief := plan(scenarios.Session{Behaviour: "transfer", Size: 1}, scenarios.Arrival{Closed: &scenarios.Closed{Held: 1}})
	if got[0].Brief || !Offers(brief)[0].Brief {
		t.Error("only sessions without a length are brief")
	}
	if errs := Limits(p); len(errs) > 0 {
		t.Errorf("37 sessions: %v", errs)
	}
	p.Streams[1].Arrival.Closed.Held = 900_000
	if errs := Limits(p); len(errs) == 0 {
		t.Error("900,000 sessions are held against no limit")
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("nothing is configured, and nothing is wrong")
	}
	channels := scenarios.Session{Behaviour: "channels", Channels: 2}
	tests := []struct {
		because string
		session scenarios.Session
		mode    string
		says    string // empty: it is right
	}{
		{"no such behaviour", scenarios.Session{Behaviour: "juggle"}, "", "cannot do"},
		{"channels, recorded at the node", channels, "node-sync", ""},
		{"channels, recorded at the proxy", channels, "proxy", "cannot be told apart"},
	}
	for _, tt := range tests {
		p := plan(tt.session, scenarios.Arrival{Open: constant(1)})
		err := (Config{Plan: p, History: newMemory(), Targets: someTargets(), Users: make([]*identity.Identity, 1), RecordingMode: tt.mode}).check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.because, err)
		}
	}
}
