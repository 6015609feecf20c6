package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// earlier is what a run folder tells of what was decided in it.
type earlier struct {
	dir  string
	plan *scenarios.Plan
	env  run.Env
	text []byte // of the scenario
}

// readEarlier reads the decisions of a run: its plan, its scenario, where it ran and with which images.
func readEarlier(name string) (earlier, error) {
	dir, err := runFolder(name)
	if err != nil {
		return earlier{}, err
	}
	e := earlier{dir: dir}
	file, err := os.Open(filepath.Join(dir, checks.PlanFile))
	if err != nil {
		return e, usage("%s is not a run folder: %w", dir, err)
	}
	defer file.Close()
	if e.plan, err = scenarios.ReadPlan(file); err != nil {
		return e, usage("%s: %w", filepath.Join(dir, checks.PlanFile), err)
	}
	if e.text, err = os.ReadFile(filepath.Join(dir, scenarioFile)); err != nil {
		return e, usage("%s is not a run folder: %w", dir, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, envFile))
	if err == nil {
		err = json.Unmarshal(data, &e.env)
	}
	if err != nil {
		return e, usage("%s: %w", filepath.Join(dir, envFile), err)
	}
	return e, nil
}

// decides are the flags whose answers a run that is repeated has already given.
var decides = []string{"seed", "set", "chart", "cluster"}

// onlyReplay checks the command line of run --replay.
func onlyReplay(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("--replay repeats the run's own scenario: %s is one too many", quoted(args[0]))
	}
	var given []string
	for _, name := range decides {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 0 {
		return usage("--replay repeats what was decided: %s would decide it anew", strings.Join(given, ", "))
	}
	return nil
}

// again are the options that carry a plan of an earlier run out, in a new folder.
func (r *running) again(e earlier, plan *scenarios.Plan) (run.Options, error) {
	options, err := r.shared()
	if err != nil {
		return run.Options{}, err
	}
	r.where.provider = e.env.Provider
	if err := r.valid(); err != nil {
		return run.Options{}, fmt.Errorf("%s: %w", e.dir, err)
	}
	options.Plan, options.Text, options.ProviderName = plan, e.text, e.env.Provider
	if len(r.images) == 0 {
		options.Images = e.env.Images
	}
	options.Repeat = func(dir string) string { return "shakedown run --replay " + quoted(dir) }
	return options, nil
}

// doAgain carries the plan of an earlier run out.
func (r *running) doAgain(ctx context.Context) error {
	e, err := readEarlier(r.replay)
	if err != nil {
		return err
	}
	options, err := r.again(e, e.plan)
	if err != nil {
		return err
	}
	r.talk("Running the plan of %s again, seed %d: at least %s, and what the actions and conditions take.",
		e.dir, e.plan.Seed, scenarios.FormatDuration(e.plan.LeastTime()))
	return r.outcome(r.perform(ctx, options))
}

// replays says whether a command line carried the plan of another run out: that is repeated by its folder alone.
func replays(argv []string) bool {
	return slices.ContainsFunc(argv, func(word string) bool {
		return word == "shrink" || word == "--replay" || strings.HasPrefix(word, "--replay=")
	})
}
