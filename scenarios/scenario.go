// Package scenarios is the language of scenario files and the plan that is
// made from one. It is pure: it reads what it is given, touches no cluster and
// no clock, and every choice comes from a seed.
//
// A file is decoded strictly from the YAML tree, by hand-written tables rather
// than through struct tags, because every problem has to be told at once, with
// its line and the nearest right word, and a decoder that stops at the first
// wrong type cannot do that.
//
// Faults and gates belong to other packages. What may stand under do: comes in
// as a [Vocabulary], and expressions are checked by a function handed in.
package scenarios

// APIVersion is the only version of the language so far.
const APIVersion = "shakedown.dev/v1alpha1"

// Scenario is what the author wrote, with defaults filled in.
type Scenario struct {
	File        string     `json:"-"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Source      string     `json:"source,omitempty"` // where the claim comes from
	Cluster     Cluster    `json:"cluster"`
	Teleport    Teleport   `json:"teleport"`
	Load        []Stream   `json:"load"`
	Timeline    []Entry    `json:"timeline"`
	Expect      []Gate     `json:"expect"`
	Limits      Limits     `json:"limits"`
	Validity    Validity   `json:"validity"`
	Recordings  Recordings `json:"recordings"`
	// Prometheus is asked at the end, if the scenario names one.
	Prometheus *Prometheus `json:"prometheus,omitempty"`

	words Vocabulary // it was decoded with
}

// Cluster is the Kubernetes the scenario needs.
type Cluster struct {
	Nodes int `json:"nodes"` // worker nodes that pods may run on
}

// Teleport is the system under test.
type Teleport struct {
	Release   string   `json:"release"`
	Namespace string   `json:"namespace"`
	From      Release  `json:"from"`
	To        *Release `json:"to,omitempty"` // what is not said in it stays as in From
	Agents    Agents   `json:"agents"`
	Users     int      `json:"users"` // the load is spread over so many
	// Probe says whether, before the load, a proxy is stopped to see what that does to its sessions: auto (if the
	// timeline ends proxies), always or never.
	Probe string `json:"probe"`
}

// Release is a chart at a version with values.
type Release struct {
	Chart   string         `json:"chart,omitempty"` // standin, a path, or a chart reference of Helm
	Version string         `json:"version,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
	pos     Position
}

// Agents are the Teleport nodes that sessions end at.
type Agents struct {
	Pods   int `json:"pods"`
	PerPod int `json:"perPod"`
}

// Stream is one source of sessions. With several in Mix each session is drawn
// by weight.
type Stream struct {
	Name    string     `json:"name"`
	Mix     []Weighted `json:"mix"`
	Arrival Arrival    `json:"arrival"`
	Through string     `json:"through,omitempty"` // ThroughService, or empty: a pod chosen for each session
	Start   Span       `json:"start,omitempty"`   // after the timeline's start
	For     Span       `json:"for,omitempty"`     // 0: until the timeline has ended
	pos     Position
}

// ThroughService is for streams that dial the proxies' Service as users do, instead of a pod by its own address.
const ThroughService = "service"

// Weighted is a session with its share in a mix.
type Weighted struct {
	Weight  int     `json:"weight"`
	Session Session `json:"session"`
}

// Arrival says when sessions begin: exactly one of Open and Closed.
type Arrival struct {
	Open   *Open   `json:"open,omitempty"`
	Closed *Closed `json:"closed,omitempty"`
	// MaxHeld caps the open model: what is due while so many are held is
	// counted as capped and not begun. 0: no cap.
	MaxHeld int `json:"maxHeld,omitempty"`
}

// Open is the open model: sessions begin when they are due, whatever became
// of those before.
type Open struct {
	Distribution string `json:"distribution"` // of the gaps: constant or poisson
	// Legs are walked one after another; the last may have no end.
	Legs []Leg `json:"legs"`
}

// Leg is a stretch of time in which the rate goes from From to To in a line.
type Leg struct {
	From float64 `json:"from"` // sessions per second
	To   float64 `json:"to"`
	For  Span    `json:"for,omitempty"` // 0: without end; last leg only
}

// Closed is the closed model: so many are held, each that ends is replaced.
type Closed struct {
	Held  int          `json:"held"`
	Over  Span         `json:"over,omitempty"` // the first ones are spread over this time
	Think Distribution `json:"think,omitzero"` // between an end and its replacement
}

// Gate is one expectation: a CEL expression that has to be true.
type Gate struct {
	Name string `json:"name"`
	That string `json:"that"`
	pos  Position
}

// Limits is the blast radius: what faults may hit at any one time. Pods that
// fall with a node count as part of the node.
type Limits struct {
	Pods  int `json:"pods"`
	Nodes int `json:"nodes"`
	// Share is the part of one component's replicas, 0..1.
	Share float64 `json:"share"`
	pos   Position
}

// Validity is what a run must keep to count at all.
type Validity struct {
	LateP99   Span    `json:"lateP99"`   // schedule error of the generator
	CPU       float64 `json:"cpu"`       // its share of all cores, 0..1
	Offered   float64 `json:"offered"`   // share of the due sessions that must have been begun
	Stall     Span    `json:"stall"`     // silence from which a session is stalled
	Gap       Span    `json:"gap"`       // silence from which it is written down
	ClockJump Span    `json:"clockJump"` // wall clock against monotonic clock
	Probe     Span    `json:"probe"`     // interval of the canary through each pod
	Control   int     `json:"control"`   // canary sessions beside Teleport
}

// Recordings says how recordings are judged.
type Recordings struct {
	Mode   string  `json:"mode,omitempty"` // node, node-sync, proxy, proxy-sync, off; empty: the chart's
	Settle Span    `json:"settle"`         // after the last session's end; what is not there then is missing
	Late   Span    `json:"late"`           // from which a complete one is late
	Sample float64 `json:"sample"`         // share that is read back, 0..1; the audit log is read for all
}
