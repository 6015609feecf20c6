package checks

import (
	"fmt"
	"os"
	"path/filepath"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// The files of a run folder that judging reads.
const (
	PlanFile    = "plan.json"
	HistoryFile = "history.jsonl.zst"
)

// MeasureFolder measures the run in a folder. The error is about the folder as such; a history that
// is damaged or cut off gives measures that say so.
func MeasureFolder(dir string) (*Measures, error) {
	plan, err := os.Open(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, fmt.Errorf("open the plan of the run: %w", err)
	}
	defer plan.Close()
	p, err := scenarios.ReadPlan(plan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plan.Name(), err)
	}
	h, err := os.Open(filepath.Join(dir, HistoryFile))
	if err != nil {
		return nil, fmt.Errorf("open the history of the run: %w", err)
	}
	defer h.Close()
	return Measure(FromPlan(p), history.NewReader(h)), nil
}
