package checks

import (
	"iter"
	"time"

	"shakedown.dev/shakedown/history"
)

// Source is a history to judge: *history.Reader is one.
type Source interface {
	Events() iter.Seq[history.Event]
	// Status is asked after Events has ended.
	Status() history.Status
}

// ledger is a history after one pass, in a form small enough for a million events.
type ledger struct {
	start  history.RunStart
	end    *history.RunEnd
	endAt  time.Duration
	status history.Status

	strings  interner
	sessions []session
	lost     []lostSession // of sessions: dropped, refused, stalled
	byID     map[string]int32
	twice    []string // sessions that ended more than once
	opening  map[openingStep]*latencies

	pods       []*pod
	podIndex   map[string]int32
	nodes      map[string][]nodeChange
	endpoints  map[string]map[string]steps // component, Service
	replicas   map[string]replicaSteps     // component
	agents     map[string][]agentChange    // agent UUID
	listed     []listed
	repeated   []repeated
	entries    map[string]*phase
	entryOrder []string
	faults     []*fault
	rollouts   []*rollout

	generator  []generatorSample
	streams    map[string][]streamSample
	controls   []control
	clock      []clockJump
	api        []apiChange
	blind      []blindSpot
	health     []healthLook
	recordings []recording
	damaged    []damagedRecording // of recordings: something is lost
	sweeps     map[matcher]sweep
	unlooked   map[int32]bool            // sessions whose recording nobody looked at; filled by findUnlooked
	routes     routes                    // filled by findRoutes
	authAway   []span                    // filled by findAuthAway
	agentOpens map[int32][]time.Duration // when each agent opened sessions; filled when asked
	servedBy   map[string]string         // UUID of a server, by session
	serverPods map[string]int32          // pod, by UUID of its server
	promql     []history.Prometheus
	proxyStop  *ProxyStop // nil: not measured
	metrics    map[string]scraped
	podSweeps  map[int32]sweep // filled when asked
	audits     int
	probes     int
	last       time.Duration // of everything
	measured   time.Duration // last moment the load was watched
	loadBegan  time.Duration // first session due; -1: none
}

type (
	generatorSample struct {
		at  time.Duration
		cpu float64
	}
	streamSample struct {
		at time.Duration
		history.StreamSample
	}
	control struct {
		at     time.Duration
		target string
		err    string
		took   time.Duration
		shake  bool
	}
	clockJump struct{ at, jump time.Duration }
	apiChange struct {
		at, since time.Duration
		up        bool
		err       string
	}
	blindSpot struct {
		what string
		span span
		err  string
	}
	healthLook struct {
		at time.Duration
		history.Health
	}
	nodeChange struct {
		at    time.Duration
		state history.NodeState
	}
	agentChange struct {
		at    time.Duration
		state string
		proxy int32 // pod, -1: not known
	}
)

func newLedger() *ledger {
	return &ledger{
		strings: newInterner(), byID: map[string]int32{}, opening: map[openingStep]*latencies{},
		podIndex: map[string]int32{}, nodes: map[string][]nodeChange{}, endpoints: map[string]map[string]steps{},
		replicas: map[string]replicaSteps{}, agents: map[string][]agentChange{}, entries: map[string]*phase{},
		streams: map[string][]streamSample{}, sweeps: map[matcher]sweep{}, loadBegan: -1,
		metrics: map[string]scraped{}, podSweeps: map[int32]sweep{}, servedBy: map[string]string{}, serverPods: map[string]int32{},
	}
}

// readLedger goes once through a history; it never fails: what is wrong with the history is in its status.
func readLedger(src Source) *ledger {
	l := newLedger()
	for e := range src.Events() {
		l.add(e)
	}
	l.status = src.Status()
	l.finish()
	return l
}

func (l *ledger) add(e history.Event) {
	l.last = max(l.last, e.At)
	switch d := e.Data.(type) {
	case history.Session:
		l.addSession(d)
	case history.SessionOpened:
		l.addOpened(d)
	case history.Probe:
		l.addProbe(e.At, d)
	case history.Recording:
		l.addRecording(d)
	case history.Generator:
		l.addGenerator(e.At, d)
	case history.RunStart:
		l.start = d
	case history.RunEnd:
		l.end, l.endAt = &d, e.At
	default:
		l.addObservation(e)
	}
}

func (l *ledger) addObservation(e history.Event) {
	switch d := e.Data.(type) {
	case history.PodChange:
		l.addPodChange(e.At, d)
	case history.ContainerEnd:
		l.addContainerEnd(e.At, d)
	case history.NodeChange:
		l.nodes[d.Node] = append(l.nodes[d.Node], nodeChange{e.At, d.State})
	case history.Endpoints:
		l.addEndpoints(e.At, d)
	case history.Replicas:
		l.addReplicas(e.At, d)
	case history.AgentChange:
		l.addAgent(e.At, d)
	case history.Control:
		l.controls = append(l.controls, control{e.At, d.Target, d.Error, d.Took, d.Handshake})
	case history.Clock:
		l.clock = append(l.clock, clockJump{e.At, d.Jump})
	case history.APIServer:
		l.api = append(l.api, apiChange{e.At, d.Since, d.Up, d.Error})
	case history.Blind:
		l.blind = append(l.blind, blindSpot{d.What, span{d.From, d.Until}, d.Error})
	case history.Audit:
		l.addAudit(e.Subject, d)
	case history.Prometheus:
		l.promql = append(l.promql, d)
	case history.ProxyStop:
		l.addProxyStop(d)
	case history.Metrics:
		l.addMetrics(e.At, d)
	default:
		l.addAction(e)
	}
}

func (l *ledger) addAction(e history.Event) {
	switch d := e.Data.(type) {
	case history.Entry:
		l.addEntry(e, d)
	case history.Fault:
		l.addFault(e.At, d)
	case history.Rollout:
		l.addRollout(e, d)
	case history.Health:
		l.health = append(l.health, healthLook{e.At, d})
	}
}

func (l *ledger) addGenerator(at time.Duration, g history.Generator) {
	l.measured = max(l.measured, at)
	l.generator = append(l.generator, generatorSample{at, g.CPU})
	for _, s := range g.Streams {
		l.streams[s.Name] = append(l.streams[s.Name], streamSample{at, s})
	}
}

func (l *ledger) addAgent(at time.Duration, a history.AgentChange) {
	if a.State == history.AgentListed {
		l.addListed(at, a.Agent)
		return
	}
	if pod := l.pod(a.Agent.Pod); pod >= 0 {
		l.serverPods[a.Agent.UUID] = pod
	}
	proxy := int32(-1)
	if a.Proxy != (history.PodRef{}) {
		proxy = l.pod(a.Proxy)
	}
	l.agents[a.Agent.UUID] = append(l.agents[a.Agent.UUID], agentChange{at, a.State, proxy})
}

// finish ends sessions that never ended with the measuring and closes what is still open.
func (l *ledger) finish() {
	l.measured = max(l.measured, l.loadBegan, 0)
	for i := range l.sessions {
		if s := &l.sessions[i]; s.end == never {
			s.end = max(l.measured, s.open)
		}
	}
	for _, p := range l.entries {
		p.close(l.last)
	}
	for _, p := range l.pods {
		p.finish(l)
	}
}

// interner numbers strings, so that a million sessions share a few names.
type interner struct {
	index map[string]int32
	names []string
}

func newInterner() interner { return interner{index: map[string]int32{"": 0}, names: []string{""}} }

func (in *interner) id(s string) int32 {
	if i, ok := in.index[s]; ok {
		return i
	}
	i := int32(len(in.names))
	in.index[s] = i
	in.names = append(in.names, s)
	return i
}

func (in *interner) name(i int32) string { return in.names[i] }
