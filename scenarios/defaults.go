package scenarios

import "time"

// Bounds of waiting that hold where the scenario says nothing: no wait is
// without one.
const (
	defaultWithin  = Span(5 * time.Minute)
	defaultTimeout = Span(15 * time.Second) // of opening a session
)

// defaults is a scenario before the file is read.
func defaults(file string, words Vocabulary) *Scenario {
	return &Scenario{
		File:    file,
		Cluster: Cluster{Nodes: 3},
		Teleport: Teleport{
			Release: "teleport", Namespace: "teleport", Users: 2, Probe: ProbeAuto,
			Agents: Agents{Pods: 2, PerPod: 1},
		},
		Limits: Limits{Pods: 1, Nodes: 1, Share: 1},
		Validity: Validity{
			LateP99: Span(50 * time.Millisecond), CPU: 0.8, Offered: 0.95,
			Stall: Span(10 * time.Second), Gap: Span(2 * time.Second),
			ClockJump: Span(500 * time.Millisecond), Probe: Span(time.Second), Control: 2,
		},
		Recordings: Recordings{Settle: Span(time.Minute), Late: Span(30 * time.Second), Sample: 1},
		words:      words,
	}
}

// session is a session before its mapping is read.
func defaultSession() Session {
	return Session{
		Kind: SSH, Behaviour: "interactive", Pace: Always(time.Second), LineBytes: 64, Channels: 4,
		Keepalive: Span(5 * time.Second), Direction: "up", Timeout: defaultTimeout,
	}
}
