package run

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// Names in a run folder, beside those of checks and undo.
const (
	scenarioFile = "scenario.yaml"
	envFile      = "env.json"
	logsDir      = "logs"
	privateDir   = "private" // identities; removed at the run's end
)

// Env is env.json: what a reader needs to do the same again.
type Env struct {
	Run      string            `json:"run"`
	Scenario string            `json:"scenario"`
	Seed     uint64            `json:"seed"`
	Argv     []string          `json:"argv"`
	Tool     string            `json:"tool"` // version and commit
	Started  time.Time         `json:"started"`
	Provider string            `json:"provider"`
	Machine  map[string]string `json:"machine"`
	Images   []clusters.Image  `json:"images,omitempty"` // that were given, beside the stand-in's
	// ProxyStop is what stopping a proxy did, where the run measured it.
	ProxyStop *history.ProxyStop `json:"proxyStop,omitempty"`
	// Reach is how load reaches pods, where there are several ways: direct, port-forward or gateway.
	Reach string `json:"reach,omitempty"`
	// Filled in are values that a lab needs and the author did not give, with the reason for each.
	Filled []Filled `json:"filled,omitempty"`
}

// Filled is one default of the system under test.
type Filled struct {
	Path   string `json:"path"`
	Value  any    `json:"value"`
	Reason string `json:"reason"`
}

// newID names a run: when it was, what it was, and a few random digits, so that
// two runs of one second do not meet. It is a valid label value.
func newID(scenario string, now time.Time) string {
	b := make([]byte, 2)
	_, _ = rand.Read(b) // never fails
	if len(scenario) > 32 {
		scenario = scenario[:32]
	}
	return fmt.Sprintf("%s-%s-%s", now.UTC().Format("20060102-150405"), scenario, hex.EncodeToString(b))
}

// folder is a run folder in the making.
type folder struct {
	dir string
	id  string
}

// createFolder makes the run folder with what is known before anything is
// touched: scenario, plan, environment.
func createFolder(parent string, text []byte, plan *scenarios.Plan, env Env) (folder, error) {
	f := folder{dir: filepath.Join(parent, env.Run), id: env.Run}
	for _, d := range []string{parent, f.dir, f.path(logsDir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return f, fmt.Errorf("run folder: %w", err)
		}
	}
	if err := os.WriteFile(f.path(scenarioFile), text, 0o644); err != nil {
		return f, fmt.Errorf("run folder: %w", err)
	}
	out, err := os.Create(f.path(checks.PlanFile))
	if err != nil {
		return f, fmt.Errorf("run folder: %w", err)
	}
	if err := plan.Write(out); err != nil {
		out.Close()
		return f, fmt.Errorf("run folder: plan: %w", err)
	}
	if err := out.Close(); err != nil {
		return f, fmt.Errorf("run folder: %w", err)
	}
	return f, f.writeEnv(env)
}

func (f folder) writeEnv(env Env) error {
	data, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path(envFile), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }
