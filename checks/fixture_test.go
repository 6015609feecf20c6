package checks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

const sec = time.Second

// world is a small run that is written down as a history: two auth pods, three proxies, two agents,
// five SSH sessions a second that last ten seconds each, for eighty seconds.
type world struct {
	events []history.Event
	expect Expect
	start  history.RunStart
	cut    bool // no closing record
}

func ref(component, name string) history.PodRef {
	return history.PodRef{Name: name, UID: "uid-" + name, Component: component, Node: "node-" + name[len(name)-1:], Revision: "old"}
}

func proxy(i int) history.PodRef { return ref("proxy", fmt.Sprintf("proxy-%d", i)) }
func agent(i int) history.PodRef { return ref("agent", fmt.Sprintf("agent-%d", i)) }

// steady is an undisturbed run in which all is well.
func steady(mods ...func(*world)) *world {
	w := &world{start: history.RunStart{
		Format: history.Version, Run: "r1", Scenario: "steady", Seed: 7, Tool: "test",
		SUT:     history.SUT{Chart: "standin", From: "1.0.0", Standin: true, RecordingMode: "node"},
		Cluster: history.ClusterFacts{Provider: "embedded", Nodes: []string{"n1", "n2", "n3"}},
		Desired: map[string]int{"auth": 2, "proxy": 3},
		Streams: []history.StreamOffer{{Name: "terminals", Session: "ssh", Behaviour: "interactive", Model: "open", Rate: 5, Held: 50}},
		Bounds:  history.Bounds{LateP99: 50 * time.Millisecond, CPU: 0.8, Stall: 5 * sec, Offered: 0.95, Probe: sec, ClockJump: 250 * time.Millisecond},
	}}
	w.expect = Expect{Names: gates.Names{Components: []string{"auth", "proxy"}, Phases: []string{"warmup", "kill", "recovery"}, Streams: []string{"terminals"}, Kinds: []string{"ssh"}}}
	w.pods()
	w.everySecond()
	w.load(func(int) int { return 0 })
	w.phase("warmup", 0, 20*sec)
	w.phase("rest", 20*sec, 89*sec)
	w.at(95*sec, "", history.RunEnd{How: "finished"})
	for _, m := range mods {
		m(w)
	}
	return w
}

// killed is a run in which proxy-1 is deleted at 30 s with its sessions, and replaced by proxy-4 at 38 s.
func killed(mods ...func(*world)) *world {
	return steady(append([]func(*world){kill}, mods...)...)
}

func kill(w *world) {
	w.start.Scenario = "kill"
	w.expect.Entries = []PlannedEntry{{Name: "kill", Action: "podDelete"}}
	w.phase("kill", 30*sec, 31*sec)
	target := []history.Target{{Kind: "pod", Name: "proxy-1", UID: "uid-proxy-1", Pod: proxy(1)}}
	f := history.Fault{ID: "kill", Name: "podDelete", Entry: "kill", Selector: "component=proxy,count=1", Targets: target}
	for _, s := range []struct {
		stage history.FaultStage
		at    time.Duration
		proof string
	}{{history.FaultPlanned, 0, ""}, {history.FaultInject, 30 * sec, ""}, {history.FaultBit, 31 * sec, "pod uid-proxy-1 is gone"},
		{history.FaultHeal, 31 * sec, ""}, {history.FaultHealed, 38 * sec, "3 of 3 ready"}} {
		f.Stage, f.Proof = s.stage, s.proof
		w.at(s.at, "kill", f)
	}
	w.drop(func(e history.Event) bool {
		p, ok := e.Data.(history.Probe)
		return ok && p.Pod.Name == "proxy-1" && e.At > 30*sec
	})
	w.at(30*sec+10*time.Millisecond, "proxy-1", history.PodChange{Pod: proxy(1), State: history.PodDeleting})
	w.at(31*sec, "proxy-1", history.PodChange{Pod: proxy(1), State: history.PodGone})
	w.newPod(proxy(4), 31*sec, 38*sec)
	for t := 38 * sec; t < 90*sec; t += sec {
		w.at(t, "proxy-4", history.Probe{Pod: proxy(4), Took: 40 * time.Millisecond})
	}
	w.at(30*sec+20*time.Millisecond, "", history.Endpoints{Service: "teleport", Component: "proxy", Ready: []history.PodRef{proxy(2), proxy(3)}})
	w.at(38*sec, "", history.Endpoints{Service: "teleport", Component: "proxy", Ready: []history.PodRef{proxy(2), proxy(3), proxy(4)}})
	w.sessions(func(s *history.Session) {
		switch {
		case s.Proxy.Name == "proxy-1" && s.Due < 30*sec && s.End > 30*sec:
			s.Class, s.Cut, s.End, s.LastHeard = history.Dropped, history.CutReset, 30*sec+200*time.Millisecond, 30*sec
			s.Reason, s.Exit = "read: connection reset by peer", nil
		case s.Proxy.Name == "proxy-1" && s.Due >= 30*sec:
			s.Proxy = proxy(2)
		}
	})
}

// at adds an event.
func (w *world) at(at time.Duration, subject string, d history.Payload) {
	w.events = append(w.events, history.Event{At: at, Wall: time.Unix(1700000000, 0).UTC().Add(at), Kind: d.Kind(), Subject: subject, Data: d})
}

func (w *world) pods() {
	for i := range 2 {
		w.newPod(ref("auth", fmt.Sprintf("auth-%d", i)), 0, 0)
		w.newPod(agent(i), 0, 0)
	}
	for i := 1; i <= 3; i++ {
		w.newPod(proxy(i), 0, 0)
	}
	w.at(0, "", history.Endpoints{Service: "teleport", Component: "proxy", Ready: []history.PodRef{proxy(1), proxy(2), proxy(3)}})
	w.at(0, "", history.Replicas{Component: "proxy", Desired: 3, Ready: 3})
	w.at(0, "", history.Replicas{Component: "auth", Desired: 2, Ready: 2})
}

func (w *world) newPod(p history.PodRef, created, ready time.Duration) {
	w.at(created, p.Name, history.PodChange{Pod: p, State: history.PodCreated})
	w.at(ready, p.Name, history.PodChange{Pod: p, State: history.PodReady})
}

func (w *world) everySecond() {
	for t := time.Duration(0); t < 90*sec; t += sec {
		due := min(uint64(t/(200*time.Millisecond)), 400)
		w.at(t, "", history.Generator{CPU: 0.2, Streams: []history.StreamSample{{Name: "terminals", Target: 5, Due: due, Started: due, Opened: due, Held: 50}}})
		w.at(t, "", history.Control{Target: "agent-0", Took: 20 * time.Millisecond})
		for i := 1; i <= 3; i++ {
			w.at(t, proxy(i).Name, history.Probe{Pod: proxy(i), Took: 40 * time.Millisecond})
		}
	}
}

// load adds the sessions with a complete recording each.
func (w *world) load(late func(i int) int) {
	exit := 0
	for i := range 400 {
		due := time.Duration(i) * 200 * time.Millisecond
		s := history.Session{
			ID: fmt.Sprintf("terminals/%d", i), Stream: "terminals", Type: "ssh", Behaviour: "interactive",
			Due: due, Start: due + time.Millisecond, Open: due + 50*time.Millisecond, End: due + 10*sec,
			Phases: []history.PhaseTime{{Phase: history.PhaseTLS, Took: 8 * time.Millisecond}},
			Proxy:  proxy(1 + i%3), ProxyHow: "dialled", Agent: history.Agent{UUID: fmt.Sprintf("agent-uuid-%d", i%2), Pod: agent(i % 2)},
			ServerSession: fmt.Sprintf("ss-%d", i), Recorded: true, Class: history.Clean, Exit: &exit,
			Lines: history.Lines{Sent: 10, Acked: 10},
		}
		w.at(s.End, s.ID, s)
		w.at(92*sec, s.ID, history.Recording{Session: s.ID, ServerSession: s.ServerSession, Class: history.RecComplete, Mode: "node", Storage: "emptyDir",
			Holder: agent(i % 2), Started: true, Ended: true, Uploaded: true, Expected: 10, Found: 10, Settled: 3 * sec})
	}
}

func (w *world) phase(name string, from, to time.Duration) {
	w.at(from, name, history.Entry{Name: name, State: history.EntryStarted})
	w.at(to, name, history.Entry{Name: name, State: history.EntryEnded})
	w.events[len(w.events)-1].Outcome = history.OK
}

// drop removes events.
func (w *world) drop(which func(history.Event) bool) { w.events = slices.DeleteFunc(w.events, which) }

// sessions changes the sessions' ends.
func (w *world) sessions(change func(*history.Session)) {
	for i, e := range w.events {
		if s, ok := e.Data.(history.Session); ok {
			change(&s)
			w.events[i].Data, w.events[i].At = s, s.End
		}
	}
}

// recordings changes the recordings.
func (w *world) recordings(change func(*history.Recording)) {
	for i, e := range w.events {
		if r, ok := e.Data.(history.Recording); ok {
			change(&r)
			w.events[i].Data = r
		}
	}
}

// edit changes all payloads of one kind.
func edit[P history.Payload](w *world, change func(*history.Event, *P)) {
	for i := range w.events {
		if p, ok := w.events[i].Data.(P); ok {
			change(&w.events[i], &p)
			w.events[i].Data = p
		}
	}
}

// history gives the run as JSON lines, in the order of time, with start and closing record.
func (w *world) history(t testing.TB) *history.Reader {
	t.Helper()
	return history.NewReader(bytes.NewReader(w.lines(t)))
}

func (w *world) lines(t testing.TB) []byte {
	t.Helper()
	events := slices.Clone(w.events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	events = slices.Insert(events, 0, history.Event{Kind: history.KindRunStart, Data: w.start})
	counts := map[history.Kind]uint64{}
	var lost map[history.Kind]uint64
	for _, e := range events {
		counts[e.Kind]++
		if o, ok := e.Data.(history.Overflow); ok {
			lost = o.Lost
		}
	}
	if !w.cut {
		last := events[len(events)-1].At
		events = append(events, history.Event{At: last, Kind: history.KindClosed,
			Data: history.Closed{Events: uint64(len(events)), ByKind: counts, Lost: lost}})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range events {
		events[i].Seq = uint64(i + 1)
		if err := enc.Encode(events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func (w *world) gates(exprs ...string) {
	for _, x := range exprs {
		w.expect.Gates = append(w.expect.Gates, gates.Gate{Name: x, Expr: x})
	}
}

func (w *world) measure(t testing.TB) *Measures {
	t.Helper()
	return Measure(w.expect, w.history(t))
}

func (w *world) judge(t testing.TB) Verdict {
	t.Helper()
	return Judge(w.measure(t), Options{})
}
