package checks

import (
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

// TestValidity has for every condition a run that meets it and at least one that does not.
func TestValidity(t *testing.T) {
	drop := func(k history.Kind) func(*world) {
		return func(w *world) { w.drop(func(e history.Event) bool { return e.Kind == k }) }
	}
	for _, tt := range []struct {
		name   string
		says   string
		run    *world
		ok     bool
		detail string
	}{
		{"history complete", "closed in order", steady(), true, "complete"},
		{"history complete", "no closing record", steady(func(w *world) { w.cut = true }), false, "no closing record"},
		{"history complete", "the recorder could not keep up", steady(overflow), false, "could not keep up"},
		{"run finished", "finished", steady(), true, "finished after 1m35s"},
		{"run finished", "no end record", steady(drop(history.KindRunEnd)), false, "cut off"},
		{"something measured", "sessions and canaries", steady(), true, "400 sessions opened"},
		{"something measured", "no session opened", steady(refuseAll), false, "0 sessions opened"},
		{"something measured", "no canary", steady(drop(history.KindProbe)), false, "0 canaries"},
		{"load offered before the first change", "all begun", killed(), true, "150 of 150 begun, 50 held"},
		{"load offered before the first change", "the generator began too few", killed(started(0.8)), false, "terminals: 120 of 151 sessions due were begun"},
		{"load offered before the first change", "no sample", killed(drop(history.KindGenerator)), false, "nothing was offered"},
		{"load offered before the first change", "a closed stream that holds what it should", killed(closed(50)), true, "held 50 of 50"},
		{"load offered before the first change", "a closed stream that holds too few", killed(closed(80)), false, "held at most 50 of 80"},
		{"load offered before the first change", "brief sessions are not held all at once", killed(closed(80), brief), true, "opened 150 of 80"},
		{"load offered before the first change", "brief sessions too few of which opened", killed(closed(180), brief), false, "opened at most 150 of 180"},
		{"load offered throughout", "none of ours", steady(), true, "0 of 400"},
		{"load offered throughout", "a tenth is our failure", steady(oursEvery(10)), false, "40 of 400"},
		{"schedule kept", "1 ms late", steady(), true, "1ms late at p99"},
		{"schedule kept", "200 ms late", steady(late(200 * time.Millisecond)), false, "200"},
		{"generator had CPU to spare", "20 %", steady(), true, "at most 20 %"},
		{"generator had CPU to spare", "one busy second", steady(cpu(40*sec, 40*sec)), true, "at most 36 %"},
		{"generator had CPU to spare", "six busy seconds", steady(cpu(40*sec, 46*sec)), false, "at most 100 %"},
		{"generator had CPU to spare", "not sampled", steady(drop(history.KindGenerator)), false, "not sampled"},
		{"faults bit and healed", "proven", killed(), true, "1 of 1"},
		{"faults bit and healed", "selected nothing", killed(stage(history.FaultInject, history.FaultEmpty)), false, "kill (podDelete) selected nothing"},
		{"faults bit and healed", "no proof that it bit", killed(unproven(history.FaultBit)), false, "did not prove that it bit"},
		{"faults bit and healed", "no proof that it healed", killed(unproven(history.FaultHealed)), false, "did not prove that it healed"},
		{"faults bit and healed", "it says itself that it did not heal, and why", killed(func(w *world) {
			edit(w, func(_ *history.Event, f *history.Fault) {
				if f.Stage == history.FaultHealed {
					f.Stage, f.Proof, f.Error = history.FaultNotHealed, "", "kill: did not prove that it healed: 1 of 3 ready"
				}
			})
		}), false, "kill (podDelete) did not prove that it healed: 1 of 3 ready"},
		{"faults bit and healed", "planned and never tried", steady(planned("")), false, "kill (podDelete) was planned and never began"},
		{"faults bit and healed", "its condition was missed", steady(planned(""), missedKill("")), false, "its condition did not hold in time"},
		{"faults bit and healed", "its condition was missed and it may be skipped", steady(planned("skip"), missedKill("skip")), true, "none"},
		{"faults bit and healed", "one of two rounds never began", killed(func(w *world) { w.expect.Entries = append(w.expect.Entries, w.expect.Entries[0]) }), false, "1 of 2 times kill (podDelete) was planned"},
		{"well before each change", "well", killed(health("before", true)), true, "each of 1 looks"},
		{"well before each change", "not well", killed(health("before", false)), false, "not well before kill"},
		{"well before each change", "not well after is what recovery is about", killed(health("after", false)), true, "no look was recorded"},
		{"rollouts ended", "ended", steady(rolled(history.OK)), true, "1"},
		{"rollouts ended", "never ended", steady(rolled("")), false, "upgrade up never ended"},
		{"clock did not jump", "steady", steady(), true, "no jump"},
		{"clock did not jump", "two seconds", steady(func(w *world) { w.at(50*sec, "", history.Clock{Jump: -2 * sec}) }), false, "jumped by -2s"},
		{"API server outages known", "an outage with both ends", steady(outage(true)), true, "1, 4s in all"},
		{"API server outages known", "an outage without end", steady(outage(false)), false, "down at the end"},
		{"nothing unobserved", "watched", steady(), true, "without a break"},
		{"nothing unobserved", "a watch broke", steady(blind), false, "pods from 20s to 30s"},
		{"nothing unobserved", "a watch broke with the API server", steady(outage(true), func(w *world) {
			w.at(56*sec, "", history.Blind{What: "pods", From: 51 * sec, Until: 55 * sec})
		}), true, "1 that outages of the API server explain"},
		{"nothing unobserved", "canaries stopped with the API server", steady(outage(true), func(w *world) {
			w.at(56*sec, "", history.Blind{What: "probes", From: 51 * sec, Until: 55 * sec})
		}), false, "probes from 51s to 55s"},
		{"control arm present", "once a second", steady(), true, "90 canaries"},
		{"control arm present", "none", steady(drop(history.KindControl)), false, "no canary went beside"},
		{"control arm present", "a long silence", steady(silentControl), false, "no control canary for 3"},
		{"control arm present", "on a node that the run itself took away", steady(func(w *world) {
			on := []history.Target{{Kind: "node", Name: "node-0"}}
			w.at(25*sec, "", history.Fault{ID: "die", Name: "nodeKill", Stage: history.FaultInject, Targets: on})
			w.at(50*sec, "", history.Fault{ID: "die", Name: "nodeKill", Stage: history.FaultHealed, Targets: on})
			edit(w, func(e *history.Event, c *history.Control) {
				if e.At >= 26*sec && e.At < 50*sec {
					c.Error = "no answer"
				}
			})
		}), false, "no control canary for 25s from 25s on: fault die (nodeKill) acted on agent-0"},
		{"control arm quick", "quick", steady(), true, "the slowest of 90 took 20ms"},
		{"control arm quick", "one line came late", steady(func(w *world) {
			w.at(40*sec, "", history.Control{Target: "agent-0", Took: 450 * time.Millisecond})
		}), false, "waited 450ms for a line at 40s, 340ms is allowed"},
		{"control arm quick", "handshakes, too", steady(func(w *world) {
			w.at(40*sec, "", history.Control{Target: "agent-0", Handshake: true, Took: 250 * time.Millisecond})
		}), true, "took 20ms, of 1 times three handshakes 250ms"},
		{"control arm quick", "a handshake took long", steady(func(w *world) {
			for i := range 20 {
				w.at(time.Duration(i)*sec, "", history.Control{Target: "agent-0", Handshake: true, Took: 30 * time.Millisecond})
			}
			w.at(40*sec, "", history.Control{Target: "agent-0", Handshake: true, Took: 400 * time.Millisecond})
		}), false, "took 400ms for three handshakes at 40s, 360ms is allowed"},
		{"control arm clean", "clean", steady(), true, "0 of 90 failed"},
		{"control arm clean", "one failed", steady(failControl("agent-0")), false, "1 of 90"},
		{"control arm clean", "one failed to the address of a pod that was ended", killed(failControl("10.1.2.3:3022"), func(w *world) {
			w.at(0, "proxy-1", history.PodChange{Pod: proxy(1), State: history.PodReady, IP: "10.1.2.3"})
		}), true, "1 to pods that were ended"},
		{"control arm clean", "the way that all load takes broke", killed(func(w *world) {
			w.at(40*sec, "", history.Blind{What: history.BlindGateway, From: 38 * sec, Until: 40 * sec, Error: "lost"})
		}), false, "lost at 40s"},
		{"control arm clean", "the way broke before there was load", steady(func(w *world) {
			w.at(0, "", history.Blind{What: history.BlindGateway, From: -10 * sec, Until: -1 * sec})
		}), true, "0 of 90 failed"},
		{"control arm clean", "one failed to a pod that was ended", killed(failControl("proxy-1")), true, "1 to pods that were ended"},
		{"canaries throughout", "once a second", killed(), true, "canaries through 1 components"},
		{"canaries throughout", "none through a proxy", killed(drop(history.KindProbe)), false, "no canary went through a proxy"},
		{"canaries throughout", "none during the fault", killed(noProbes(29*sec, 37*sec)), false, "no canary through proxy for"},
		{"recordings settled", "all read", steady(), true, "400 expected, all read back"},
		{"recordings settled", "one pending", steady(damage("terminals/8", history.RecPending)), false, "1 of 400 pending"},
		{"recordings settled", "never looked at", steady(drop(history.KindRecording)), false, "400 of 400 pending, 400 of these never"},
		{"sessions ended once", "each", steady(), true, "400 sessions"},
		{"sessions ended once", "one twice", steady(twice), false, "terminals/399"},
	} {
		t.Run(tt.name+"/"+tt.says, func(t *testing.T) {
			for _, v := range tt.run.measure(t).Validity {
				if v.Name != tt.name {
					continue
				}
				if v.OK != tt.ok || !strings.Contains(v.Detail, tt.detail) {
					t.Errorf("ok %t (%s), want %t (%s)", v.OK, v.Detail, tt.ok, tt.detail)
				}
				return
			}
			t.Errorf("no condition of that name")
		})
	}
}

func overflow(w *world) {
	w.at(50*sec, "", history.Overflow{Lost: map[history.Kind]uint64{history.KindSession: 3}})
}

func refuseAll(w *world) {
	w.sessions(func(s *history.Session) {
		s.Class, s.Open, s.Failed, s.Recorded = history.Refused, 0, history.PhaseTLS, false
	})
}

func started(share float64) func(*world) {
	return func(w *world) {
		edit(w, func(_ *history.Event, g *history.Generator) {
			g.Streams = []history.StreamSample{g.Streams[0]}
			g.Streams[0].Due++
			g.Streams[0].Started = uint64(share * float64(g.Streams[0].Started))
		})
	}
}

func brief(w *world) { w.start.Streams[0].Brief = true }

func closed(held int) func(*world) {
	return func(w *world) { w.start.Streams[0].Model, w.start.Streams[0].Held = "closed", held }
}

func oursEvery(n int) func(*world) {
	i := 0
	return func(w *world) {
		w.sessions(func(s *history.Session) {
			if i++; i%n == 0 {
				*s = history.Session{ID: s.ID, Stream: s.Stream, Type: s.Type, Due: s.Due, End: s.Due, Class: history.Ours}
			}
		})
	}
}

func late(by time.Duration) func(*world) {
	return func(w *world) {
		w.sessions(func(s *history.Session) { s.Start, s.Open = s.Due+by, s.Due+by+50*time.Millisecond })
	}
}

func cpu(from, to time.Duration) func(*world) {
	return func(w *world) {
		edit(w, func(e *history.Event, g *history.Generator) {
			if e.At >= from && e.At <= to {
				g.CPU = 1
			}
		})
	}
}

func health(when string, well bool) func(*world) {
	return func(w *world) { w.at(29*sec, "kill", history.Health{When: when, Of: "kill", Well: well}) }
}

func stage(from, to history.FaultStage) func(*world) {
	return func(w *world) {
		edit(w, func(_ *history.Event, f *history.Fault) {
			if f.Stage == from {
				f.Stage = to
			}
		})
	}
}

func unproven(s history.FaultStage) func(*world) {
	return func(w *world) {
		edit(w, func(_ *history.Event, f *history.Fault) {
			if f.Stage == s {
				f.Proof = ""
			}
		})
	}
}

func planned(orElse string) func(*world) {
	return func(w *world) {
		w.expect.Entries = []PlannedEntry{{Name: "kill", Action: "podDelete", OrElse: orElse}}
	}
}

func missedKill(orElse string) func(*world) {
	return func(w *world) {
		w.at(60*sec, "kill", history.Entry{Name: "kill", State: history.EntryMissed, OrElse: orElse})
	}
}

func outage(up bool) func(*world) {
	return func(w *world) {
		w.at(51*sec, "", history.APIServer{Since: 50 * sec, Error: "connection refused"})
		if up {
			w.at(54*sec, "", history.APIServer{Up: true, Since: 50 * sec})
			edit(w, func(_ *history.Event, a *history.APIServer) { a.Since = 50 * sec })
		}
	}
}

func silentControl(w *world) {
	w.drop(func(e history.Event) bool { return e.Kind == history.KindControl && e.At > 30*sec && e.At < 60*sec })
}

func failControl(target string) func(*world) {
	return func(w *world) {
		edit(w, func(e *history.Event, c *history.Control) {
			if e.At == 31*sec {
				c.Target, c.Error = target, "connection refused"
			}
		})
	}
}

func noProbes(from, to time.Duration) func(*world) {
	return func(w *world) {
		w.drop(func(e history.Event) bool { return e.Kind == history.KindProbe && e.At >= from && e.At <= to })
	}
}

func twice(w *world) {
	for _, e := range w.events {
		if s, ok := e.Data.(history.Session); ok && s.ID == "terminals/399" {
			w.at(s.End, s.ID, s)
			return
		}
	}
}

// TestControlArmHiccup: one moment in 500 answers may be slow, for all canaries of the arm at once.
func TestControlArmHiccup(t *testing.T) {
	for _, tt := range []struct {
		says string
		slow []time.Duration
		ok   bool
	}{
		{"none", nil, true},
		{"two canaries in one moment", []time.Duration{100 * sec, 100*sec + 300*time.Millisecond}, true},
		{"two moments", []time.Duration{100 * sec, 102 * sec}, false},
	} {
		t.Run(tt.says, func(t *testing.T) {
			m := &Measures{l: &ledger{}}
			for i := range 600 {
				m.l.controls = append(m.l.controls, control{target: "agent-0", at: time.Duration(i) * sec, took: 20 * time.Millisecond})
			}
			for _, at := range tt.slow {
				m.l.controls = append(m.l.controls, control{target: "agent-1", at: at, took: 450 * time.Millisecond})
			}
			if ok, detail := controlQuick(m); ok != tt.ok {
				t.Errorf("%v: %s", ok, detail)
			}
		})
	}
}
