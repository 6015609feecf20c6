package run

import (
	"time"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/pods"
)

// runStart is the history's first event: what the run is going to do, on what.
func (r *runner) runStart(facts clusters.Facts) history.RunStart {
	out := history.RunStart{
		Format: history.Version, Run: r.env.Run, Scenario: r.plan.Scenario, Seed: r.plan.Seed, Tool: r.Tool,
		Machine: machine(),
		Cluster: history.ClusterFacts{Provider: r.ProviderName, Name: facts.Name, Version: facts.Version, Namespace: r.plan.Teleport.Namespace},
		SUT:     r.sut(),
		Desired: map[string]int{}, Streams: load.Offers(r.plan), Bounds: r.bounds(),
	}
	for _, n := range facts.Nodes {
		out.Cluster.Nodes = append(out.Cluster.Nodes, n.Name)
	}
	for _, name := range []string{pods.Auth, pods.Proxy} {
		if c, ok := r.plan.Facts.Components[name]; ok {
			out.Desired[name] = c.Replicas
		}
	}
	return out
}

func (r *runner) sut() history.SUT {
	t := r.plan.Teleport
	s := history.SUT{Chart: t.From.Chart, From: t.From.Version, Standin: r.standin(), RecordingMode: r.recordingMode()}
	if t.To != nil {
		s.To = t.To.Version
	}
	return s
}

// recordingMode is what the scenario sets, or Teleport's own default.
func (r *runner) recordingMode() string {
	if m := r.plan.Recordings.Mode; m != "" {
		return m
	}
	if m, ok := helm.Get(r.plan.Teleport.From.Values, "sessionRecording"); ok {
		if text, ok := m.(string); ok && text != "" {
			return text
		}
	}
	return "node"
}

func (r *runner) bounds() history.Bounds {
	v, rec := r.plan.Validity, r.plan.Recordings
	d := scenarios.Span.Duration
	return history.Bounds{
		LateP99: d(v.LateP99), CPU: v.CPU, Stall: d(v.Stall), Gap: d(v.Gap), ClockJump: d(v.ClockJump),
		Offered: v.Offered, Probe: d(v.Probe), Settle: d(rec.Settle), LateRec: d(rec.Late),
		Listed: r.shortened(listedTime),
	}
}

// completerTime is how long Teleport's upload completer may take: 30 min until
// a tracker expires, 5 min poll, 2 min wait (lib/events/complete.go).
const completerTime = 37 * time.Minute

// uploaderTime is the longest that an uploader waits between two tries (lib/events/filesessions/fileasync.go).
const uploaderTime = 500 * time.Second

// completer is that of this system.
func (r *runner) completer() time.Duration { return r.shortened(completerTime) }
