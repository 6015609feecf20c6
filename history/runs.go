package history

import "time"

// RunStart is the first event: what the run was going to do, on what.
type RunStart struct {
	Format   string            `json:"format"` // Version
	Run      string            `json:"run"`    // the run folder's id
	Scenario string            `json:"scenario"`
	Seed     uint64            `json:"seed"`
	Tool     string            `json:"tool"`              // version and commit of shakedown
	Machine  Machine           `json:"machine"`           // where the load comes from
	Cluster  ClusterFacts      `json:"cluster"`           // what was run on
	SUT      SUT               `json:"sut"`               // system under test
	Desired  map[string]int    `json:"desired,omitempty"` // replicas by component before any change
	Streams  []StreamOffer     `json:"streams,omitempty"` // what each stream was to offer
	Bounds   Bounds            `json:"bounds"`            // limits that validity is judged by
	Env      map[string]string `json:"env,omitempty"`     // other facts, for the reader
}

// Machine is the load generator's machine.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memoryBytes,omitempty"`
	Files  uint64 `json:"files,omitempty"` // limit of open file descriptors
}

// ClusterFacts is the Kubernetes the run worked on.
type ClusterFacts struct {
	Provider  string   `json:"provider"` // embedded, kind or existing
	Name      string   `json:"name,omitempty"`
	Version   string   `json:"version,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Nodes     []string `json:"nodes,omitempty"`
}

// SUT is the system under test.
type SUT struct {
	Chart   string `json:"chart"`
	From    string `json:"from"`
	To      string `json:"to,omitempty"`
	Standin bool   `json:"standin"`
	// RecordingMode is node, node-sync, proxy, proxy-sync or off.
	RecordingMode string `json:"recordingMode,omitempty"`
}

// StreamOffer is the load one stream was to offer.
type StreamOffer struct {
	Name      string  `json:"name"`
	Session   string  `json:"session"` // session kind, as in Session.Type
	Behaviour string  `json:"behaviour"`
	Model     string  `json:"model"`                   // open or closed
	Rate      float64 `json:"ratePerSecond,omitempty"` // highest rate offered; open model
	Held      int     `json:"held,omitempty"`          // sessions to hold (closed) or to expect held (open, steady state)
	MaxHeld   int     `json:"maxHeld,omitempty"`       // cap; 0: none
	// Brief: sessions may end by themselves before all are held, so how many are held says little of what was offered.
	Brief bool `json:"brief,omitempty"`
}

// Bounds are the limits that a run's validity is judged by.
type Bounds struct {
	LateP99   time.Duration `json:"lateP99Ns"`          // schedule error allowed to the generator
	CPU       float64       `json:"cpuShare"`           // share of all cores allowed, 0..1
	Stall     time.Duration `json:"stallNs"`            // silence from which a session counts as stalled
	Gap       time.Duration `json:"gapNs"`              // silence from which a gap is written down
	Settle    time.Duration `json:"settleNs"`           // time given to recordings after a session's end
	LateRec   time.Duration `json:"lateRecordingNs"`    // from which a complete recording is late
	ClockJump time.Duration `json:"clockJumpNs"`        // wall against monotonic
	Offered   float64       `json:"offeredShare"`       // share of the offered load that must have been started, 0..1
	Probe     time.Duration `json:"probeNs"`            // canary interval per pod
	Listed    time.Duration `json:"listedNs,omitempty"` // how long Teleport lists a node it no longer hears of
}

// RunEnd is written when the conductor has finished and healed, however the
// run went. A history without it was cut off.
type RunEnd struct {
	// How is finished, interrupted, aborted (something broke) or skipped.
	How      string   `json:"how"`
	Error    string   `json:"error,omitempty"`
	Unhealed []string `json:"unhealed,omitempty"`
	// Reach is how load reached pods, where there are several ways: direct, or port-forward (through the API server).
	Reach string `json:"reach,omitempty"`
}

// EntryState is where a timeline entry stands.
type EntryState string

// The states. An entry that waits and starts at once may skip Waiting. Ended
// carries Outcome ok or failed; Missed: its condition did not hold in time.
const (
	EntryWaiting EntryState = "waiting"
	EntryStarted EntryState = "started"
	EntryEnded   EntryState = "ended"
	EntryMissed  EntryState = "missed"
	EntrySkipped EntryState = "skipped"
)

// Entry is one step of a timeline entry; the time from Started to Ended is the
// phase of that name.
type Entry struct {
	Name   string     `json:"name"`
	Index  int        `json:"index"`            // position in the plan's flat order, from 0
	Parent string     `json:"parent,omitempty"` // entry that contains it
	Round  int        `json:"round,omitempty"`  // repetition, from 1; 0: not repeated
	State  EntryState `json:"state"`
	Action string     `json:"action,omitempty"` // wait, or the action's name
	When   string     `json:"when,omitempty"`   // the condition awaited
	// OrElse says what a missed condition means: fail, skip or inconclusive.
	OrElse string `json:"orElse,omitempty"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Health is a look at the system around a fault or phase, by the conductor.
type Health struct {
	When   string `json:"when"` // before, after
	Of     string `json:"of"`   // entry or fault
	Well   bool   `json:"well"`
	Detail string `json:"detail,omitempty"`
}

// Blind says that something could not be observed for a while (a watch that
// broke, an audit log that did not answer), so that nothing is concluded from
// its silence.
type Blind struct {
	What  string        `json:"what"` // pods, nodes, endpoints, audit, recordings, probes, metrics, logs, gateway
	From  time.Duration `json:"fromNs"`
	Until time.Duration `json:"untilNs"`
	Error string        `json:"error,omitempty"`
}

// BlindGateway is the What of a way that all load took, also the control arm, and that broke.
const BlindGateway = "gateway"

// Kind of each payload.
func (RunStart) Kind() Kind { return KindRunStart }
func (RunEnd) Kind() Kind   { return KindRunEnd }
func (Entry) Kind() Kind    { return KindEntry }
func (Health) Kind() Kind   { return KindHealth }
func (Blind) Kind() Kind    { return KindBlind }
