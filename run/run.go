// Package run is the conductor: the only place where load, chaos and clusters
// meet. It brings a cluster up, installs Teleport, holds sessions through it,
// carries the plan's timeline out, heals, looks at recordings, and judges.
// Whatever happens on the way, it heals, writes the history's end and leaves a
// run folder that can be judged.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/reports"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
)

// Keep says when the cluster of a run stays.
type Keep string

// The cases in which a cluster stays.
const (
	KeepNever     Keep = "never"
	KeepOnFailure Keep = "on-failure" // the verdict is not pass
	KeepAlways    Keep = "always"
)

// Options are what a run needs to be told.
type Options struct {
	Scenario     *scenarios.Scenario // read with DecodeOptions
	Plan         *scenarios.Plan     // of another run, to be carried out as it stands: then Scenario and Seed say nothing
	Text         []byte              // of the scenario, as its author wrote it
	Seed         uint64
	Provider     func(logs string) clusters.Provider // logs is the folder for the cluster's own
	ProviderName string
	Images       []clusters.Image
	Standin      string // program of the stand-in; empty: beside this one, or in $PATH
	Out          string // the folder that run folders are made in
	Keep         Keep   // empty: KeepNever
	Reuse        string // name of a kept cluster to run on, which stays; empty: one is made
	Tool         string // version and commit of this program
	Argv         []string
	// Repeat gives the command that does a run again, from its folder, for reports. Nil: they make one.
	Repeat func(folder string) string
	// HealOnly, when it is closed, leaves everything out that is not healing: sessions are not ended one by one, no
	// logs are collected, and there is no verdict. Nil: never.
	HealOnly <-chan struct{}
	// Progress is told of each step of the run. Nil: nobody watches.
	Progress func(clusters.Step)
	Log      *slog.Logger // nil: nothing is logged
}

// Result is what a run came to.
type Result struct {
	Folder      string
	Verdict     checks.Verdict
	Report      reports.Report
	Unhealed    []string // changes that could not be undone
	Interrupted bool     // by ctx
	Kept        string   // name of the cluster, if it stays
}

// finishTime bounds what is done after the end of ctx: healing, ending
// sessions, collecting.
const finishTime = 5 * time.Minute

// Run plans and carries out a scenario. The error says why there is no verdict
// to trust; the folder in the result holds what there is even then. A run that
// was interrupted is judged as far as it went.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	plan, err := o.plan(ctx)
	if err != nil {
		return Result{}, exit.With(exit.Usage, err)
	}
	o.Seed = plan.Seed
	if err := load.Prepare(plan); err != nil {
		return Result{}, exit.With(exit.Broken, fmt.Errorf("this machine cannot hold the load: %w", err))
	}
	now := time.Now()
	env := Env{
		Run: newID(plan.Scenario, now), Scenario: plan.Scenario, Seed: o.Seed, Argv: o.Argv, Tool: o.Tool,
		Started: now.UTC(), Provider: o.ProviderName, Images: o.Images,
		Machine: map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH, "cores": fmt.Sprint(runtime.NumCPU())},
	}
	f, err := createFolder(o.Out, o.Text, plan, env)
	if err != nil {
		return Result{}, err
	}
	r := &runner{Options: o, plan: plan, env: env, folder: f, result: Result{Folder: f.dir}}
	err = r.whole(ctx)
	return r.result, err
}

// plan is the one that was handed in, or a new one.
func (o Options) plan(ctx context.Context) (*scenarios.Plan, error) {
	if o.Plan != nil {
		return o.Plan, nil
	}
	plan, _, err := MakePlan(ctx, o.Scenario, o.ProviderName, o.Seed)
	return plan, err
}

// runner is one run under way.
type runner struct {
	Options
	plan     *scenarios.Plan
	env      Env
	folder   folder
	provider clusters.Provider
	cluster  clusters.Cluster
	stays    bool // the cluster is there before and after the run
	touched  bool // something was installed, or may have been
	result   Result
}

// whole is the run from the cluster's start to its end.
func (r *runner) whole(ctx context.Context) error {
	spec, err := r.clusterSpec()
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.folder.path("images")) // a cluster that stays has its own copy
	r.provider = r.Provider(r.folder.path(filepath.Join(logsDir, r.ProviderName)))
	if err := r.step(r.upping(spec.Name), func() error { return r.up(ctx, spec) }); err != nil {
		return interruption(ctx, err)
	}
	free, err := r.occupy(ctx)
	err = interruption(ctx, err)
	if err == nil {
		err = r.permitted(ctx)
	}
	if err == nil {
		err = r.conduct(ctx)
	}
	return errors.Join(err, r.takeDown(ctx, spec.Name, err, free))
}

// clusterSpec is the cluster that the plan needs, with the stand-in's image if
// that is what is tried.
func (r *runner) clusterSpec() (clusters.Spec, error) {
	spec := clusters.Spec{
		Name: cmp.Or(r.Reuse, "run-"+r.env.Run[len(r.env.Run)-4:]), Nodes: r.plan.Cluster.Nodes,
		// As a managed Kubernetes is often set: the default of 40 s would be most of a short run.
		NodeMonitorGrace: 16 * time.Second,
		Labels:           map[string]string{helm.RunLabel: r.env.Run},
		Images:           r.Images,
		Detach:           r.Keep == KeepAlways || r.Keep == KeepOnFailure || r.Reuse != "",
	}
	if r.ProviderName == onExisting {
		return spec, spec.Validate() // its nodes pull for themselves
	}
	if r.outlives() {
		image, err := stageJanitor(r.folder.path("images/shakedown"))
		if err != nil {
			return spec, err
		}
		spec.Images = append([]clusters.Image{image}, spec.Images...)
	}
	if !r.standin() {
		return spec, spec.Validate()
	}
	program, err := findStandin(r.Standin)
	if err != nil {
		return spec, err
	}
	images, err := stageStandin(program, r.folder.path("images"))
	if err != nil {
		return spec, err
	}
	spec.Images = append(images, spec.Images...)
	return spec, spec.Validate()
}

// standin says whether the stand-in is the system under test.
func (r *runner) standin() bool { return helm.Ref{Chart: r.plan.Teleport.From.Chart}.Builtin() }

// takeDown ends the cluster unless it is to stay, and then frees it for others. failed is how the run went.
func (r *runner) takeDown(ctx context.Context, name string, failed error, free func()) error {
	defer free()
	keep := r.Keep == KeepAlways || r.Keep == KeepOnFailure && (failed != nil || r.result.Verdict.Verdict != checks.Pass)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	if r.Reuse != "" {
		return r.leave(ctx, keep)
	}
	if r.stays {
		return errors.Join(r.leave(ctx, keep), r.provider.Down(ctx, name))
	}
	if keep {
		r.result.Kept = name
		return nil
	}
	return r.step("Taking the cluster down", func() error { return r.provider.Down(ctx, name) })
}

// step does a named part of the run and tells whoever watches.
func (r *runner) step(name string, do func() error) error {
	r.tell(name, clusters.StepStarted, "")
	if err := do(); err != nil {
		r.tell(name, clusters.StepFailed, err.Error())
		return fmt.Errorf("%s: %w", name, err)
	}
	r.tell(name, clusters.StepDone, "")
	return nil
}

func (r *runner) tell(name string, state clusters.StepState, detail string) {
	if r.Progress != nil {
		r.Progress(clusters.Step{Name: name, State: state, Detail: detail})
	}
}

// interruption gives the reason of an end that ctx's end brought about.
func interruption(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exit.With(exit.Interrupted, context.Cause(ctx))
	}
	return err
}
