// Package runtest makes up runs for the tests of whatever judges and reports: a small simulation that
// writes the history a real run would. The same seed gives the same history.
package runtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// Config is what varies between made-up runs.
type Config struct {
	Seed uint64
	Rate float64 // sessions a second
	// Silent sessions are dropped without a cause; Missing recordings are lost without one.
	Silent, Missing int
	Standin         bool
	Gates           []gates.Gate
}

const (
	sec    = time.Second
	length = 180 * sec
	loadTo = 170 * sec
)

// pod is one pod of the simulation.
type pod struct {
	ref                  history.PodRef
	created, ready, gone time.Duration // gone 0: lives on
	deleting             time.Duration
	how                  string
	grace                time.Duration
}

type sim struct {
	Config
	rng    *rand.Rand
	events []history.Event
	pods   []*pod
	due    uint64
}

// RolloutUnderFire is the main scenario: three proxies are upgraded one after another, one of the old
// ones is deleted in between, and a node is drained.
func RolloutUnderFire(c Config) []history.Event {
	s := &sim{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 1))}
	s.cluster()
	s.timeline()
	s.load()
	s.watch()
	s.add(length, "", history.RunEnd{How: "finished"})
	return s.sealed()
}

// Expect is what goes with RolloutUnderFire.
func Expect(gs ...gates.Gate) checks.Expect {
	return checks.Expect{
		Gates: gs,
		Names: gates.Names{Components: []string{"auth", "proxy", "agent"}, Phases: []string{"warmup", "rollout", "kill", "drain", "recovery"},
			Streams: []string{"terminals"}, Kinds: []string{"ssh"}},
		Entries: []checks.PlannedEntry{{Name: "rollout", Action: "helmUpgrade", Rollout: true}, {Name: "kill", Action: "podDelete"}, {Name: "drain", Action: "nodeDrain"}},
	}
}

// Gates are those of the catalogue's scenario.
func Gates() []gates.Gate {
	return []gates.Gate{
		{Name: "never fewer than two proxies", Expr: "capacity.proxy.min >= 2"},
		{Name: "nothing lost before the rollout", Expr: `sessions.during("warmup").dropped == 0`},
		{Name: "every loss explained", Expr: "sessions.unattributed == 0"},
		{Name: "recordings of ended sessions complete", Expr: "recordings.missing == 0 && recordings.truncated == 0"},
		{Name: "opens stay quick", Expr: `latency("terminals").after("recovery").p99 <= duration("500ms")`},
		{Name: "back within a minute", Expr: "recovery.seconds <= 60"},
	}
}

// Source gives events as a history to read, as JSON lines.
func Source(events []history.Event) *history.Reader {
	return history.NewReader(bytes.NewReader(Lines(events)))
}

// Lines gives events as JSON lines.
func Lines(events []history.Event) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			panic(err) // our own structs
		}
	}
	return b.Bytes()
}

func (s *sim) add(at time.Duration, subject string, d history.Payload) {
	s.events = append(s.events, history.Event{At: at, Wall: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC).Add(at), Kind: d.Kind(), Subject: subject, Data: d})
}

// sealed puts the events in order, numbers them and adds start and closing record.
func (s *sim) sealed() []history.Event {
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	events := slices.Insert(s.events, 0, history.Event{Kind: history.KindRunStart, Data: s.start()})
	counts := map[history.Kind]uint64{}
	for i := range events {
		events[i].Seq = uint64(i + 1)
		counts[events[i].Kind]++
	}
	n := uint64(len(events))
	return append(events, history.Event{Seq: n + 1, At: length, Kind: history.KindClosed, Data: history.Closed{Events: n, ByKind: counts}})
}

func (s *sim) start() history.RunStart {
	return history.RunStart{
		Format: history.Version, Run: "20260301-020000-rollout", Scenario: "rollout-under-fire", Seed: s.Seed, Tool: "shakedown 0.1.0",
		Machine: history.Machine{OS: "linux", Arch: "amd64", Cores: 2},
		Cluster: history.ClusterFacts{Provider: "embedded", Version: "v1.36.3", Nodes: []string{"node-1", "node-2", "node-3"}},
		SUT:     history.SUT{Chart: "standin", From: "1.0.0", To: "1.1.0", Standin: s.Standin, RecordingMode: "node"},
		Desired: map[string]int{"auth": 2, "proxy": 3},
		Streams: []history.StreamOffer{{Name: "terminals", Session: "ssh", Behaviour: "interactive", Model: "open", Rate: s.Rate}},
		Bounds:  history.Bounds{LateP99: 50 * time.Millisecond, CPU: 0.8, Stall: 5 * sec, Offered: 0.95, Probe: sec, ClockJump: sec / 4},
	}
}

func ref(component string, i int, revision string) history.PodRef {
	name := fmt.Sprintf("teleport-%s-%s-%d", component, revision, i)
	return history.PodRef{Name: name, UID: "uid-" + name, Component: component, Node: fmt.Sprintf("node-%d", 1+(i-1)%3), Revision: revision}
}

// cluster makes the pods with their lives: proxy 1 is replaced by the rollout, proxy 2 is deleted at 62 s,
// proxy 3 is on the drained node.
func (s *sim) cluster() {
	auth, agent := []*pod{{ref: ref("auth", 1, "a1")}, {ref: ref("auth", 2, "a1")}}, []*pod{}
	for i := 1; i <= 4; i++ {
		agent = append(agent, &pod{ref: ref("agent", i, "g1")})
	}
	agent[2].ref.Node, agent[3].ref.Node = "node-1", "node-2"
	proxies := []*pod{
		{ref: ref("proxy", 1, "old"), deleting: 52 * sec, gone: 55 * sec, how: "deleted", grace: 30 * sec},
		{ref: ref("proxy", 2, "old"), deleting: 62 * sec, gone: 62*sec + 300*time.Millisecond, how: "killed"},
		{ref: ref("proxy", 3, "old"), deleting: 84 * sec, gone: 87 * sec, how: "evicted", grace: 30 * sec},
		{ref: ref("proxy", 4, "new"), created: 40 * sec, ready: 50 * sec},
		{ref: ref("proxy", 5, "new"), created: 56 * sec, ready: 69 * sec},
		{ref: ref("proxy", 6, "new"), created: 85 * sec, ready: 97 * sec},
	}
	proxies[5].ref.Node = "node-2"
	s.pods = slices.Concat(auth, agent, proxies)
	for _, p := range s.pods {
		s.add(p.created, p.ref.Name, history.PodChange{Pod: p.ref, State: history.PodCreated})
		s.add(p.ready, p.ref.Name, history.PodChange{Pod: p.ref, State: history.PodReady})
		if p.gone == 0 {
			continue
		}
		s.add(p.deleting, p.ref.Name, history.PodChange{Pod: p.ref, State: history.PodDeleting, Grace: p.grace})
		if p.how == "evicted" {
			s.add(p.deleting, p.ref.Name, history.PodChange{Pod: p.ref, State: history.PodEvicted})
		}
		exit := history.ContainerEnd{Pod: p.ref, Container: "teleport"}
		if p.how == "killed" {
			exit.Exit, exit.Signal = 137, 9
		}
		s.add(p.gone, p.ref.Name, exit)
		s.add(p.gone, p.ref.Name, history.PodChange{Pod: p.ref, State: history.PodGone})
	}
}

func (s *sim) timeline() {
	for _, e := range []struct {
		name     string
		from, to time.Duration
	}{{"warmup", 0, 40 * sec}, {"rollout", 40 * sec, 97 * sec}, {"kill", 62 * sec, 63 * sec}, {"drain", 83 * sec, 88 * sec}, {"recovery", 88 * sec, 112 * sec}} {
		s.add(e.from, e.name, history.Entry{Name: e.name, State: history.EntryStarted})
		s.add(e.to, e.name, history.Entry{Name: e.name, State: history.EntryEnded})
		s.events[len(s.events)-1].Outcome = history.OK
	}
	s.rollout()
	s.fault("kill", "podDelete", history.Target{Kind: "pod", Name: s.pods[7].ref.Name, UID: s.pods[7].ref.UID, Pod: s.pods[7].ref},
		62*sec, 63*sec, 69*sec, "pod is gone from the API", "3 of 3 proxies ready")
	s.fault("drain", "nodeDrain", history.Target{Kind: "node", Name: "node-3", Why: "runs a proxy"},
		83*sec, 88*sec, 174*sec, "no pod of the release runs on node-3", "node-3 is schedulable")
}

func (s *sim) rollout() {
	r := history.Rollout{ID: "rollout", Entry: "rollout", Verb: "upgrade", From: "1.0.0", To: "1.1.0", Component: "proxy", Hash: "new"}
	for _, st := range []struct {
		stage history.RolloutStage
		at    time.Duration
	}{{history.RolloutStart, 40 * sec}, {history.RolloutHelmCalled, 40 * sec}, {history.RolloutHelmReturned, 96 * sec}, {history.RolloutEnd, 97 * sec}} {
		r.Stage = st.stage
		s.add(st.at, "rollout", r)
		s.events[len(s.events)-1].Outcome = history.OK
	}
}

func (s *sim) fault(id, name string, target history.Target, inject, bit, healed time.Duration, bitProof, healProof string) {
	f := history.Fault{ID: id, Name: name, Entry: id, Targets: []history.Target{target}}
	for _, st := range []struct {
		stage history.FaultStage
		at    time.Duration
		proof string
	}{{history.FaultPlanned, 0, ""}, {history.FaultInject, inject, ""}, {history.FaultBit, bit, bitProof},
		{history.FaultHeal, healed - sec/2, ""}, {history.FaultHealed, healed, healProof}} {
		f.Stage, f.Proof = st.stage, st.proof
		s.add(st.at, id, f)
	}
}
