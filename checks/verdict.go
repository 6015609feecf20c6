package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"shakedown.dev/shakedown/checks/gates"
)

// Schema is the name of verdict.json's format; its keys stay.
const Schema = "shakedown.dev/verdict/v1alpha1"

// VerdictFile is the verdict's name in a run folder.
const VerdictFile = "verdict.json"

// Verdict is what one run came to, as verdict.json holds it.
type Verdict struct {
	Schema   string          `json:"schema"`
	Verdict  Outcome         `json:"verdict"`
	Reasons  []string        `json:"reasons"`
	Run      string          `json:"run"`
	Seed     uint64          `json:"seed"`
	Scenario string          `json:"scenario"`
	SUT      SUT             `json:"sut"`
	Cluster  ClusterFacts    `json:"cluster"`
	Tool     string          `json:"tool"`
	Seconds  float64         `json:"seconds"` // the run's length
	Measures VerdictMeasures `json:"measures"`
	// ProxyStop is what a stopped proxy does to its sessions; absent: the run did not measure it.
	ProxyStop *ProxyStop     `json:"proxyStop,omitempty"`
	Faults    []FaultRow     `json:"faults"`
	Rollouts  []RolloutRow   `json:"rollouts"`
	Gates     []gates.Result `json:"gates"`
	Validity  []Validity     `json:"validity"`
	// Doubts are the conditions of validity without which no number of the run can be trusted, and that do not hold.
	Doubts   []string    `json:"doubts,omitempty"`
	Findings []Finding   `json:"findings"`
	Skipped  []string    `json:"skippedChecks,omitempty"`
	Losses   []LossGroup `json:"losses"`
	// Unattributed lists the sessions without a cause, at most MaxListed; measures.sessions has their number.
	Unattributed []LostSession `json:"unattributed"`
	Unhealed     []string      `json:"unhealed,omitempty"`
}

// SUT is the system under test.
type SUT struct {
	Chart         string `json:"chart"`
	From          string `json:"from"`
	To            string `json:"to"`
	Standin       bool   `json:"standin"`
	RecordingMode string `json:"recordingMode,omitempty"`
}

// ClusterFacts is what the run worked on.
type ClusterFacts struct {
	Provider string   `json:"provider"`
	Name     string   `json:"name,omitempty"`
	Version  string   `json:"version,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	Reach    string   `json:"reach,omitempty"` // how load reached pods, where there are several ways: direct, port-forward or gateway
}

// VerdictMeasures are the measures as verdict.json has them.
type VerdictMeasures struct {
	Capacity   map[string]ComponentCapacity     `json:"capacity"`
	Sessions   gates.Sessions                   `json:"sessions"`
	ByPhase    map[string]gates.Sessions        `json:"sessionsByPhase"`
	ByStream   map[string]gates.Sessions        `json:"sessionsByStream"`
	ByKind     map[string]gates.Sessions        `json:"sessionsByKind"`
	Goodput    *gates.Goodput                   `json:"goodput"` // null: nothing was due
	Recordings gates.Recordings                 `json:"recordings"`
	NotRead    int                              `json:"recordingsNotRead"`
	Matrix     []RecordingCell                  `json:"recordingsBy"`
	Latency    map[string]map[string]LatencyRow `json:"latency"`
	Opening    map[string]map[string]LatencyRow `json:"opening"`
	Steps      []StepRow                        `json:"steps,omitempty"`   // of streams of the open model whose rate changes
	Recovery   *gates.Recovery                  `json:"recovery"`          // null: nothing was disturbed
	Metrics    map[string]map[string]MetricRow  `json:"metrics,omitempty"` // component, name; absent: nothing was scraped
}

func (m *Measures) verdict() Verdict {
	s := m.Start
	v := Verdict{
		Schema: Schema, Run: s.Run, Seed: s.Seed, Scenario: s.Scenario, Tool: s.Tool, Seconds: inSeconds(m.Lasted),
		SUT:     SUT{Chart: s.SUT.Chart, From: s.SUT.From, To: s.SUT.To, Standin: s.SUT.Standin, RecordingMode: s.SUT.RecordingMode},
		Cluster: ClusterFacts{Provider: s.Cluster.Provider, Name: s.Cluster.Name, Version: s.Cluster.Version, Nodes: s.Cluster.Nodes},
		Measures: VerdictMeasures{
			Capacity: m.Capacity, Sessions: m.All, ByPhase: m.ByPhase, ByStream: m.ByStream, ByKind: m.ByKind,
			Recordings: m.Recordings, NotRead: m.RecordingsNotRead, Matrix: m.Matrix, Latency: m.LatencyBy, Opening: m.Opening,
			Steps: m.Steps, Metrics: m.Metrics,
		},
		Faults: m.Faults, Rollouts: m.Rollouts, Validity: m.Validity, Losses: m.LossGroups(), Unattributed: m.unattributed(), ProxyStop: m.l.proxyStop,
	}
	if g, err := m.Data().Goodput(gates.Filter{}, gates.Window{}); err == nil {
		v.Measures.Goodput = &g
	}
	if r, err := m.Data().Recovery(); err == nil {
		v.Measures.Recovery = &r
	}
	if m.End != nil {
		v.Unhealed, v.Cluster.Reach = m.End.Unhealed, m.End.Reach
	}
	return v
}

// ExitCode is what a command that judged the run ends with, as DESIGN has it.
func (v Verdict) ExitCode() int {
	switch {
	case len(v.Unhealed) > 0:
		return 4
	case v.Verdict == Pass:
		return 0
	case v.Verdict == Fail:
		return 1
	case v.Verdict == Error:
		return 3
	}
	return 2
}

// JSON is the verdict as verdict.json holds it.
func (v Verdict) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the verdict: %w", err)
	}
	return b.Bytes(), nil
}

// Write puts verdict.json into a run folder, whole or not at all.
func (v Verdict) Write(dir string) error {
	b, err := v.JSON()
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, VerdictFile+".*")
	if err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err2 := tmp.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, VerdictFile))
	}
	if err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	return nil
}

// ReadVerdict reads verdict.json of a run folder.
func ReadVerdict(dir string) (Verdict, error) {
	path := filepath.Join(dir, VerdictFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return Verdict{}, fmt.Errorf("read the verdict: %w", err)
	}
	var v Verdict
	if err := json.Unmarshal(b, &v); err != nil {
		return Verdict{}, fmt.Errorf("%s: %w", path, err)
	}
	if v.Schema != Schema {
		return Verdict{}, fmt.Errorf("%s: schema %q, this version reads %q", path, v.Schema, Schema)
	}
	return v, nil
}
