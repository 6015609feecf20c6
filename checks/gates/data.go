package gates

import "time"

// WindowKind says how a window is cut out of the run.
type WindowKind int

const (
	Whole  WindowKind = iota // the run from its start to its end
	During                   // from a phase's start to its end
	After                    // from a phase's end, for a time or to the run's end
	Before                   // from the run's start to a phase's start
)

// Window is a part of the run as a gate names it. Zero For after a phase means to the run's end.
type Window struct {
	Kind  WindowKind
	Phase string
	For   time.Duration
}

// String gives the window in the words of a gate.
func (w Window) String() string {
	switch w.Kind {
	case During:
		return "during " + w.Phase
	case After:
		if w.For > 0 {
			return w.For.String() + " after " + w.Phase
		}
		return "after " + w.Phase
	case Before:
		return "before " + w.Phase
	}
	return "the whole run"
}

// Filter narrows sessions and recordings; empty fields let everything through.
type Filter struct {
	Stream, Kind  string
	Mode, Storage string // recordings: node, node-sync, proxy, proxy-sync; where the holder keeps them
	Holder        string // recordings: how the holder ended: alive, deleted, killed, evicted, node-lost
	Metric        string // metrics: its name
	Component     string // metrics: of the pods
}

// Data is what a gate may ask. An error means that the value does not exist (no sample in the
// window, phase never reached) and makes the gate inconclusive with the error as the reason. Fields
// of the answers are called the same in gates, with a small letter first.
type Data interface {
	Capacity(component string, w Window) (Capacity, error)
	SecondsBelow(component string, share float64, w Window) (float64, error)
	Sessions(f Filter, w Window) (Sessions, error)
	Recordings(f Filter, w Window) (Recordings, error)
	Latency(name string, w Window) (Latency, error)
	Goodput(f Filter, w Window) (Goodput, error)
	Recovery() (Recovery, error)
	Metric(f Filter, w Window) (Metric, error)
	// Prometheus is what a Prometheus answered to the query of that name.
	Prometheus(query string) (float64, error)
}

// Capacity of one component over a window; times in seconds.
type Capacity struct {
	Desired            int     `json:"desired"`
	Min                int     `json:"min"`
	MinReady           int     `json:"minReady"`
	LossRatio          float64 `json:"lossRatio"`
	ReplicaSecondsLost float64 `json:"replicaSecondsLost"`
	BlackoutSeconds    float64 `json:"blackoutSeconds"`
}

// Sessions counts sessions by the class they ended in.
type Sessions struct {
	Offered      int `json:"offered"`
	Opened       int `json:"opened"`
	Clean        int `json:"clean"`
	Refused      int `json:"refused"`
	Dropped      int `json:"dropped"`
	Stalled      int `json:"stalled"`
	Unfinished   int `json:"unfinished"`
	Ours         int `json:"ours"`
	Unattributed int `json:"unattributed"`
	Ambiguous    int `json:"ambiguous"`
	MaxHeld      int `json:"maxHeld"`
}

// Recordings counts recordings by class.
type Recordings struct {
	Expected  int `json:"expected"`
	Complete  int `json:"complete"`
	Truncated int `json:"truncated"`
	Gap       int `json:"gap"`
	NoEnd     int `json:"noEnd"`
	Missing   int `json:"missing"`
	Late      int `json:"late"`
	Pending   int `json:"pending"`
}

// Latency of opening a session, counted from when it was due.
type Latency struct {
	Count                               int
	P50, P90, P95, P99, P999, Max, Mean time.Duration
}

// Goodput is what opened against what was due, in sessions and per second.
type Goodput struct {
	Offered     int     `json:"offered"`
	Opened      int     `json:"opened"`
	Ratio       float64 `json:"ratio"`
	Rate        float64 `json:"rate"`
	OfferedRate float64 `json:"offeredRate"`
}

// Recovery is the time from the end of the last fault or rollout step until capacity and latency
// were back. Unless Recovered, Seconds is how long was looked in vain: a gate can fail on it, not pass.
type Recovery struct {
	Recovered bool    `json:"recovered"`
	Seconds   float64 `json:"seconds"`
}
