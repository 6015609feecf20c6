package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// running are the flags of run, beside those that say what is planned.
type running struct {
	planning
	out     string
	keep    string
	reuse   string
	images  []string
	standin string
	replay  string
	quiet   bool // the reports of single runs are not shown
}

func (a *app) run() *cobra.Command {
	r := &running{planning: planning{app: a}}
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Bring up, load, break, heal, judge and report",
		Long: scenarioHelp + "\n\nThe run leaves a folder with all that was seen, and reports. The exit status is the verdict: 0 pass, 1 fail,\n" +
			"2 inconclusive, 3 error of harness or machine, 4 something could not be healed, 130 interrupted and clean.\n" +
			"The first Ctrl-C heals and reports, the second only heals, the third leaves at once.",
		Example: "  shakedown run rollout-under-fire\n" +
			"  shakedown run mine.yaml --seed 7 --set load[terminals].arrival.maxHeld=50\n" +
			"  shakedown run --replay runs/20260101-000000-rollout-under-fire-4f2a\n" +
			"  shakedown run steady --chart ./teleport-cluster --image public.ecr.aws/gravitational/teleport:13.0.0=host:./build",
		Args: func(cmd *cobra.Command, args []string) error {
			if r.replay != "" {
				return onlyReplay(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.replay != "" {
				return r.doAgain(cmd.Context())
			}
			if !cmd.Flags().Changed("seed") {
				r.seed = uint64(rand.Uint32()) // short enough to be typed
			}
			return r.do(cmd.Context(), args[0])
		},
	}
	r.flags(cmd)
	flags := cmd.Flags()
	flags.Uint64Var(&r.seed, "seed", 0, "of all that is drawn at random (default: a new one, which is printed)")
	flags.StringVar(&r.replay, "replay", "", "carry the plan of an earlier `RUN` out again, instead of a scenario's: everything that was decided in it")
	r.runFlags(cmd)
	return cmd
}

// runFlags are those of every verb that runs.
func (r *running) runFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.out, "out", runsDir, "`FOLDER` in which the run's own folder is made")
	flags.StringVar(&r.keep, "keep", "never", "keep the cluster after the run: never, on-failure or always")
	flags.StringVar(&r.reuse, "reuse", "", "kind: run on the kept cluster `NAME`, which must have the shape that the run needs, and stays")
	flags.StringArrayVar(&r.images, "image", nil, "image for the pods as `NAME=SOURCE`: host:DIR, an archive, an OCI layout or a registry reference; repeatable")
	flags.StringVar(&r.standin, "standin", "", "`PROGRAM` of the stand-in (default: beside this program, or in $PATH)")
}

func (r *running) do(ctx context.Context, name string) error {
	options, err := r.options(ctx, name)
	if err != nil {
		return err
	}
	return r.outcome(r.perform(ctx, options))
}

// perform does one run, and shows what it came to.
func (r *running) perform(ctx context.Context, options run.Options) (run.Result, error) {
	began := time.Now()
	watch := &inTurn{to: r.watch()}
	options.Progress = watch.Step
	options.Provider = func(logs string) clusters.Provider { return r.app.open(r.where, watch.Step, logs) }
	signals := r.heed(watch, func() { r.leave(began) })
	options.HealOnly = signals.hurry
	result, err := run.Run(ctx, options)
	hurried := signals.release()
	watch.to.Close()
	if result.Verdict.Schema != "" && !hurried && !r.quiet {
		err = errors.Join(err, r.show(result))
	}
	return result, err
}

// options reads the scenario and checks all that can be checked before anything is touched.
func (r *running) options(ctx context.Context, name string) (run.Options, error) {
	options, err := r.shared()
	if err != nil {
		return run.Options{}, err
	}
	made, err := r.make(ctx, name)
	if err != nil {
		return run.Options{}, err
	}
	r.talk("Running %s with seed %d: at least %s, and what the actions and conditions take.",
		made.plan.Scenario, r.seed, scenarios.FormatDuration(made.plan.LeastTime()))
	options.Scenario, options.Text, options.Seed, options.ProviderName = made.scenario, made.text, r.seed, r.provider
	options.Repeat = func(dir string) string { return repeated(r.argv, filepath.Join(dir, scenarioFile), r.seed) }
	return options, nil
}

// shared are the options that do not hang on what is run.
func (r *running) shared() (run.Options, error) {
	if err := oneOf("keep", r.keep, string(run.KeepNever), string(run.KeepOnFailure), string(run.KeepAlways)); err != nil {
		return run.Options{}, exit.With(exit.Usage, err)
	}
	if r.reuse != "" && r.provider != onKind {
		return run.Options{}, usage("--reuse is for --cluster kind: an embedded cluster is up in seconds, and an existing one is never taken down")
	}
	images, err := parseImages(r.images)
	return run.Options{
		Reuse: r.reuse, Images: images, Standin: r.standin, Out: r.out, Keep: run.Keep(r.keep), Tool: build().String(), Argv: r.argv, Log: r.log,
	}, err
}

// parseImages reads all of --image and names every mistake.
func parseImages(texts []string) ([]clusters.Image, error) {
	var images []clusters.Image
	var errs []error
	for _, text := range texts {
		image, err := clusters.ParseImage(text)
		images, errs = append(images, image), append(errs, err)
	}
	return images, exit.With(exit.Usage, errors.Join(errs...))
}

// show prints the report.
func (r *running) show(result run.Result) error {
	report := result.Report
	report.Color = r.colors()
	return r.tellVerdict(report)
}

// outcome decides how the program ends. What is left behind goes before why.
func (r *running) outcome(result run.Result, err error) error {
	if result.Kept != "" {
		r.talk("Cluster %s was kept: shakedown cluster shell --name %[1]s; shakedown cluster down --name %[1]s", result.Kept)
	}
	if left := len(result.Unhealed); left > 0 {
		unhealed := exit.With(exit.Unhealed, fmt.Errorf("%s could not be undone", plural(left, "change")))
		return exit.Hint(errors.Join(unhealed, err), "shakedown heal "+quoted(result.Folder))
	}
	switch {
	case err != nil && result.Folder != "" && !result.Interrupted:
		return exit.Hint(err, "what there is lies in "+result.Folder)
	case err != nil:
		return err
	case result.Interrupted:
		return errInterrupted
	}
	return ended(result.Verdict)
}

// inTurn lets many goroutines tell their steps.
type inTurn struct {
	mu sync.Mutex
	to progress
}

// Step passes one step on.
func (p *inTurn) Step(s clusters.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to.Step(s)
}
