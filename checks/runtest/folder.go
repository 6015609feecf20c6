package runtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// WriteFolder writes the run folder of RolloutUnderFire: its plan and its history.
func WriteFolder(dir string, c Config) error {
	var plan bytes.Buffer
	if err := newPlan(c).Write(&plan); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, checks.PlanFile), plan.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return WriteHistory(filepath.Join(dir, checks.HistoryFile), RolloutUnderFire(c))
}

// WriteHistory writes events as a recorder does: frames of zstd, about one a second of a busy run.
func WriteHistory(path string, events []history.Event) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	defer f.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	var frame bytes.Buffer
	lines := json.NewEncoder(&frame)
	for i, e := range events {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
		if i%5000 != 4999 && i != len(events)-1 {
			continue
		}
		if _, err := f.Write(enc.EncodeAll(frame.Bytes(), nil)); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
		frame.Reset()
	}
	return f.Close()
}

func newPlan(c Config) *scenarios.Plan {
	p := &scenarios.Plan{Schema: scenarios.PlanSchema, Scenario: "rollout-under-fire", Seed: c.Seed,
		Streams: []scenarios.StreamPlan{{Stream: scenarios.Stream{Name: "terminals", Mix: []scenarios.Weighted{{Weight: 1, Session: scenarios.Session{Kind: "ssh"}}}}}},
		Timeline: []scenarios.Step{
			{ID: "warmup", Name: "warmup", Wait: &scenarios.Wait{}},
			{ID: "rollout", Name: "rollout", Do: &scenarios.Do{Action: "helmUpgrade"}},
			{ID: "kill", Name: "kill", Do: &scenarios.Do{Action: "podDelete"}, Fault: true},
			{ID: "drain", Name: "drain", Do: &scenarios.Do{Action: "nodeDrain"}, Fault: true},
			{ID: "recovery", Name: "recovery", Wait: &scenarios.Wait{For: "recovered()"}},
		}}
	gs := c.Gates
	if gs == nil {
		gs = Gates()
	}
	for _, g := range gs {
		p.Gates = append(p.Gates, scenarios.Gate{Name: g.Name, That: g.Expr})
	}
	return p
}
