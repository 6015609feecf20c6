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
// window, phase never reached) and makes the gate inconclusive with the error as the reason.
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
	Desired            int     `cel:"desired" json:"desired"`
	Min                int     `cel:"min" json:"min"`
	MinReady           int     `cel:"minReady" json:"minReady"`
	LossRatio          float64 `cel:"lossRatio" json:"lossRatio"`
	ReplicaSecondsLost float64 `cel:"replicaSecondsLost" json:"replicaSecondsLost"`
	BlackoutSeconds    float64 `cel:"blackoutSeconds" json:"blackoutSeconds"`
}

// Sessions counts sessions by the class they ended in.
type Sessions struct {
	Offered      int `cel:"offered" json:"offered"`
	Opened       int `cel:"opened" json:"opened"`
	Clean        int `cel:"clean" json:"clean"`
	Refused      int `cel:"refused" json:"refused"`
	Dropped      int `cel:"dropped" json:"dropped"`
	Stalled      int `cel:"stalled" json:"stalled"`
	Unfinished   int `cel:"unfinished" json:"unfinished"`
	Ours         int `cel:"ours" json:"ours"`
	Unattributed int `cel:"unattributed" json:"unattributed"`
	Ambiguous    int `cel:"ambiguous" json:"ambiguous"`
	MaxHeld      int `cel:"maxHeld" json:"maxHeld"`
}

// Recordings counts recordings by class.
type Recordings struct {
	Expected  int `cel:"expected" json:"expected"`
	Complete  int `cel:"complete" json:"complete"`
	Truncated int `cel:"truncated" json:"truncated"`
	Gap       int `cel:"gap" json:"gap"`
	NoEnd     int `cel:"noEnd" json:"noEnd"`
	Missing   int `cel:"missing" json:"missing"`
	Late      int `cel:"late" json:"late"`
	Pending   int `cel:"pending" json:"pending"`
}

// Latency of opening a session, counted from when it was due.
type Latency struct {
	Count int           `cel:"count"`
	P50   time.Duration `cel:"p50"`
	P90   time.Duration `cel:"p90"`
	P95   time.Duration `cel:"p95"`
	P99   time.Duration `cel:"p99"`
	P999  time.Duration `cel:"p999"`
	Max   time.Duration `cel:"max"`
	Mean  time.Duration `cel:"mean"`
}

// Goodput is what opened against what was due, in sessions and per second.
type Goodput struct {
	Offered     int     `cel:"offered" json:"offered"`
	Opened      int     `cel:"opened" json:"opened"`
	Ratio       float64 `cel:"ratio" json:"ratio"`
	Rate        float64 `cel:"rate" json:"rate"`
	OfferedRate float64 `cel:"offeredRate" json:"offeredRate"`
}

// Recovery is the time from the end of the last fault or rollout step until capacity and latency
// were back. Unless Recovered, Seconds is how long was looked in vain: a gate can fail on it, not pass.
type Recovery struct {
	Recovered bool    `cel:"recovered" json:"recovered"`
	Seconds   float64 `cel:"seconds" json:"seconds"`
}
