package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// probed runs an engine without load and counts canaries by pod.
func probed(lasting time.Duration, c canary) map[string][]history.Probe {
	p := plan(idle(time.Second), scenarios.Arrival{Open: constant(1)})
	p.Streams = nil
	e, m := fakeEngine(p, nil, someTargets())
	e.canary = c
	e.Start(context.Background())
	time.Sleep(lasting)
	stop(e)
	out := map[string][]history.Probe{}
	for _, x := range payloads[history.Probe](m) {
		out[x.Pod.Name] = append(out[x.Pod.Name], x)
	}
	return out
}

func refusedAt(phase history.Phase) *openError {
	return &openError{Phase: phase, Err: errors.New("no")}
}

// TestCanaries: once a second through each pod, whether Kubernetes calls it ready or not.
func TestCanaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := probed(10*time.Second, func(_ context.Context, p Proxy, _ history.Agent) *openError {
			if p.Pod.Name == "proxy-b" {
				return refusedAt(history.PhaseTLS)
			}
			return nil
		})
		for _, pod := range []string{"proxy-a", "proxy-b", "proxy-c"} {
			if n := len(got[pod]); n < 9 || n > 11 {
				t.Errorf("%d canaries through %s in ten seconds", n, pod)
			}
			for _, x := range got[pod] {
				if (x.Error != "") != (pod == "proxy-b") || x.Error != "" && x.Failed != history.PhaseTLS {
					t.Errorf("%+v", x)
				}
			}
		}
	})
}

// TestCanaryBlamesNoDeadAgent: a node that is gone says nothing about the proxy, as long as another can be reached.
func TestCanaryBlamesNoDeadAgent(t *testing.T) {
	tests := []struct {
		because string
		canary  canary
		fails   bool
	}{
		{"one node is gone", func(_ context.Context, _ Proxy, a history.Agent) *openError {
			if a.UUID == "u0" {
				return refusedAt(history.PhaseRoute)
			}
			return nil
		}, false},
		{"no node can be reached", func(context.Context, Proxy, history.Agent) *openError { return refusedAt(history.PhaseRoute) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for pod, all := range probed(10*time.Second, tt.canary) {
					for _, x := range all {
						if (x.Error != "") != tt.fails {
							t.Errorf("%s: %+v", pod, x)
						}
					}
				}
			})
		})
	}
}

// TestCanaryOneAtATime: a pod that hangs gets no second canary before the first was given up.
func TestCanaryOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, most atomic.Int32
		got := probed(20*time.Second, func(ctx context.Context, p Proxy, _ history.Agent) *openError {
			if p.Pod.Name != "proxy-a" {
				return nil
			}
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			<-ctx.Done()
			return refusedAt(history.PhaseTLS)
		})
		if most.Load() != 1 {
			t.Errorf("%d at once", most.Load())
		}
		for _, x := range got["proxy-a"] {
			if x.Took != probeTimeout || x.Error == "" {
				t.Errorf("%+v", x)
			}
		}
		if len(got["proxy-b"]) < 18 {
			t.Errorf("the other pods got %d", len(got["proxy-b"]))
		}
	})
}

// echoWay is a control that gives lines back until it is told otherwise.
func echoWay(answer func(line string) string) Control {
	return Control{Target: "beside", Open: func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() {
			for s := bufio.NewScanner(theirs); s.Scan(); {
				if text := answer(s.Text()); text != "" {
					fmt.Fprintln(theirs, text)
				}
			}
		}()
		return ours, nil
	}}
}

func TestControlArm(t *testing.T) {
	same := func(line string) string { return line }
	broken := Control{Target: "beside", Open: func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("connection refused") }}
	tests := []struct {
		because string
		way     Control
		least   int
		says    string // of the failures; empty: none
	}{
		{"each line comes back", echoWay(same), 18, ""},
		{"it cannot be opened", broken, 18, "open: connection refused"},
		{"it is silent", echoWay(func(string) string { return "" }), 2, errSilent.Error()},
		{"it gives back another line", echoWay(func(string) string { return "control 99" }), 18, `sent "control 1", got "control 99"`},
		{"the node has something to say, too", echoWay(func(line string) string { return "Warning: no recording.\r\n" + line }), 18, ""},
		{"the node talks and does not answer", echoWay(func(string) string { return "Warning: no recording.\r" }), 2, errSilent.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plan(idle(time.Second), scenarios.Arrival{Open: constant(1)})
				p.Streams, p.Validity.Control = nil, 2
				targets := someTargets()
				targets.controls = []Control{tt.way}
				e, m := fakeEngine(p, nil, targets)
				e.Start(context.Background())
				time.Sleep(10 * time.Second)
				stop(e)
				all := payloads[history.Control](m)
				if len(all) < tt.least {
					t.Errorf("%d questions of two canaries in ten seconds", len(all))
				}
				for _, c := range all {
					if c.Handshake {
						t.Errorf("%+v is a handshake on a way that has none", c)
					}
					if c.Error != tt.says || c.Target != "beside" {
						t.Errorf("got %+v, want error %q", c, tt.says)
					}
				}
			})
		})
	}
}

// TestControlArmShakes: where the way allows it, each canary does three handshakes every two seconds besides its lines.
func TestControlArmShakes(t *testing.T) {
	for _, tt := range []struct {
		says string
		err  error
		took time.Duration
	}{{"it works", nil, 210 * time.Millisecond}, {"it does not", errors.New("refused"), 70 * time.Millisecond}} {
		t.Run(tt.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := echoWay(func(line string) string { return line })
				way.Handshake = func(ctx context.Context) error {
					if _, bounded := ctx.Deadline(); !bounded {
						t.Error("it may take for ever")
					}
					time.Sleep(70 * time.Millisecond)
					return tt.err
				}
				p := plan(idle(time.Second), scenarios.Arrival{Open: constant(1)})
				p.Streams, p.Validity.Control = nil, 2
				targets := someTargets()
				targets.controls = []Control{way}
				e, m := fakeEngine(p, nil, targets)
				e.Start(context.Background())
				time.Sleep(11 * time.Second)
				stop(e)
				n, lines := 0, 0
				for _, c := range payloads[history.Control](m) {
					if !c.Handshake {
						lines++
						continue
					}
					if n++; c.Took != tt.took || (c.Error != "") != (tt.err != nil) {
						t.Errorf("%+v", c)
					}
				}
				if n != 10 || lines < 20 {
					t.Errorf("%d handshakes of two canaries in 11 seconds, and %d lines", n, lines)
				}
			})
		})
	}
}

// TestSamples: the generator writes down every second where it stands.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := runFor(plan(idle(3*time.Second), scenarios.Arrival{Open: constant(10)}), 10*time.Second+time.Millisecond, someTargets())
		all := payloads[history.Generator](m)
		if len(all) != 11 {
			t.Fatalf("%d samples in ten seconds", len(all))
		}
		at5 := all[4].Streams[0]
		if at5.Target != 10 || at5.Due < 49 || at5.Started != at5.Due || at5.Held < 29 || at5.Held > 31 || at5.Opened-at5.Ended != uint64(at5.Held) {
			t.Errorf("after five seconds: %+v", at5)
		}
		if clocks := payloads[history.Clock](m); len(clocks) > 0 {
			t.Errorf("the clock did not jump: %v", clocks)
		}
	})
}
