package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters/gateway"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/reports"
	"shakedown.dev/shakedown/run/timeline"
	"shakedown.dev/shakedown/run/watch"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/undo"
)

// trial is a run whose cluster is up: everything from the first event of the
// history to its last.
type trial struct {
	*runner
	recorder *history.Recorder
	state    *watch.State
	watch    *watch.Watcher
	system   *system
	engine   *load.Engine
	keeper   *chaos.Keeper
	undo     *undo.Log
	targets  *targets
	ends     containerEnds
	carried  carried
	auths    authLives
	phases   phases
}

// tap reads along what goes into the history.
func (t *trial) tap(e history.Event) {
	t.ends.tap(e)
	t.carried.tap(e)
	t.auths.tap(e)
	t.phases.tap(e)
}

// conduct does the run on a cluster that is up, and judges it.
func (r *runner) conduct(ctx context.Context) error {
	t := &trial{runner: r}
	var err error
	if t.recorder, err = history.Create(r.folder.path(checks.HistoryFile), history.Options{Tap: t.tap}); err != nil {
		return err
	}
	err = t.perform(ctx)
	r.result.Interrupted = err != nil && ctx.Err() != nil
	t.end(err, r.result.Interrupted)
	if err != nil && r.hurried() {
		return interruption(ctx, err)
	}
	return errors.Join(interruption(ctx, err), r.judge())
}

// hurried says whether only healing is wanted any more.
func (r *runner) hurried() bool {
	select {
	case <-r.HealOnly:
		return true
	default:
		return false
	}
}

// unlessHurried is a context that also ends when only healing is wanted.
func (r *runner) unlessHurried(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.HealOnly:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// perform is all that the history is about.
func (t *trial) perform(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	var err error
	t.watch, err = watch.Start(ctx, watch.Config{Client: t.system.client, Namespace: t.plan.Teleport.Namespace, State: t.state, Log: t.Log})
	if err != nil {
		return fmt.Errorf("watch the cluster: %w", err)
	}
	defer t.watch.Stop()
	defer func() {
		patient, cancel := t.unlessHurried(context.WithoutCancel(ctx))
		defer cancel()
		collect(patient, t.system, t.folder.path(logsDir), t.Log)
	}()
	t.touched = true
	if err := t.system.install(ctx, t.env.Run, t.folder.path(privateDir), t.step,
		func(ctx context.Context) func(context.Context) error { return t.startProbe(ctx).finish }); err != nil {
		return err
	}
	for _, d := range t.system.filled {
		t.env.Filled = append(t.env.Filled, Filled{d.Path, d.Value, d.Reason})
	}
	t.env.Reach = t.reach()
	if err := t.folder.writeEnv(t.env); err != nil {
		return err
	}
	return t.underLoad(ctx)
}

// open writes down what the run is going to do, and reaches the cluster.
func (t *trial) open(ctx context.Context) error {
	facts, err := t.cluster.Facts(ctx)
	if err != nil {
		return err
	}
	t.state = watch.NewState(t.recorder)
	t.state.Record(history.Event{Data: t.runStart(facts)})
	if t.system, err = reach(ctx, t.plan, t.cluster, t.ProviderName, t.env.Run, t.folder.path("charts"), t.Log); err != nil {
		return err
	}
	t.system.lost = t.wayLost
	id, err := undo.ClusterID(ctx, t.system.client)
	if err != nil {
		return err
	}
	head := undo.Head{Run: t.env.Run, Provider: t.ProviderName, Cluster: t.cluster.Name(), ClusterID: id, Namespace: t.plan.Teleport.Namespace, Ephemeral: t.ephemeral()}
	if head.Ephemeral {
		t.system.helm.Ephemeral()
	}
	t.undo, err = undo.Create(t.folder.path(undo.FileName), head,
		undo.ConfigMaps{Client: t.system.client, Namespace: t.plan.Teleport.Namespace})
	return err
}

// wayLost has it in the history that the way into the cluster broke: what was lost then is nobody's but ours.
func (t *trial) wayLost(err error) {
	now := t.state.Now()
	t.state.Record(history.Event{Subject: history.BlindGateway, Outcome: history.Unknown,
		Data: history.Blind{What: history.BlindGateway, From: now - gateway.Silence, Until: now, Error: err.Error()}})
}

// underLoad holds the sessions while the timeline goes by, and then looks at
// what became of them.
func (t *trial) underLoad(ctx context.Context) (err error) {
	if err := t.prepareLoad(); err != nil {
		return err
	}
	if err := t.keeper.Check(ctx, t.plan.Timeline); err != nil {
		return err
	}
	conditions, err := timeline.Compile(t.plan.Timeline, checks.Names(names(t.plan)), t.state)
	if err != nil {
		return err
	}
	ctx, dismiss, err := t.employ(ctx)
	if err != nil {
		return err
	}
	defer dismiss() // when all is healed
	renew, stop := context.WithCancel(ctx)
	defer stop()
	go t.system.wallet.Keep(renew, t.Log)
	go t.targets.follow(renew)
	go t.targets.keepReaching(renew)
	go t.kubeServers(renew)
	defer t.scrape(ctx)() // to after the sessions' end: what they left behind shows only then
	t.keeper.Planned(t.plan.Timeline)
	t.engine.Start(ctx)
	defer func() { err = errors.Join(err, t.settle(ctx)) }()
	return t.step("Holding sessions, "+t.plan.Scenario, func() error {
		runner := timeline.Runner{Actor: t, Conditions: conditions, Record: t.state}
		result := runner.Run(ctx, t.plan.Timeline)
		// What failed or was missed is in the history, and judged there.
		if result.Cancelled {
			return context.Cause(ctx)
		}
		return nil
	})
}

// names are the words that the plan's expressions use.
func names(p *scenarios.Plan) scenarios.Names {
	var out scenarios.Names
	for _, s := range p.Timeline {
		out.Entries = append(out.Entries, s.Name)
	}
	for _, s := range p.Streams {
		out.Streams = append(out.Streams, s.Name)
		for _, m := range s.Mix {
			out.Kinds = append(out.Kinds, string(m.Session.Kind))
		}
	}
	if p.Prometheus != nil {
		for _, q := range p.Prometheus.Queries {
			out.Queries = append(out.Queries, q.Name)
		}
	}
	return out
}

func (t *trial) prepareLoad() error {
	var err error
	if t.targets, err = newTargets(t); err != nil {
		return err
	}
	t.engine, err = load.New(load.Config{
		Plan: t.plan, History: t.state, Targets: t.targets, Users: t.system.loadUsers(),
		Dial: t.cluster.DialContext, RecordingMode: t.recordingMode(), CanaryUser: t.system.observer(), Precedence: true, Log: t.Log,
	})
	if err != nil {
		return err
	}
	t.keeper = &chaos.Keeper{
		World: chaos.World{
			Client: t.system.client, REST: t.system.config, Namespace: t.plan.Teleport.Namespace, Run: t.env.Run,
			Labels:  map[string]string{pods.Agent: pods.Selector(agentsRelease, pods.Agent)},
			Control: pods.Selector(controlRelease, pods.Agent),
			Cluster: t.cluster, Works: t.targets.works, Sessions: t.carried.now,
		},
		Undo: t.undo, Record: t.state.Record, Health: func(context.Context) error { return t.state.Well() }, Log: t.Log,
	}
	t.keeper.World.Leader = t.keeper.World.FindLeader
	return nil
}

// settle is what follows the timeline on every path: faults are healed,
// sessions end, recordings are looked at. Only the last of it is left out, or
// cut short, when asked ends.
func (t *trial) settle(asked context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(asked), finishTime)
	defer cancel()
	err := t.step("Healing", func() error {
		unhealed, err := t.keeper.Close(ctx)
		for _, u := range unhealed {
			t.result.Unhealed = append(t.result.Unhealed, u.Entry.Change.What)
		}
		return err
	})
	err = errors.Join(err, t.step("Ending sessions", func() error {
		patient, cancel := t.unlessHurried(ctx)
		defer cancel()
		t.engine.Stop(patient)
		return nil
	}))
	if asked.Err() == nil {
		err = errors.Join(err, t.askPrometheus(ctx))
	}
	if asked.Err() != nil || t.recordingMode() == "off" {
		return err
	}
	// Who interrupts now has seen the load end: what is not read by then is pending.
	context.AfterFunc(asked, cancel)
	return errors.Join(err, t.step("Reading recordings back", func() error { return t.checkRecordings(ctx) }))
}

func (t *trial) checkRecordings(ctx context.Context) error {
	log, err := t.openAudit()
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = recordings.Check(ctx, recordings.Options{
		Log: log, History: t.state, Mode: t.recordingMode(), Holder: t.targets.holder, Auths: t.targets.auths,
		Settle: time.Duration(t.plan.Recordings.Settle), Late: time.Duration(t.plan.Recordings.Late),
		Completer: t.completer(), Uploader: t.shortened(uploaderTime), Sample: t.plan.Recordings.Sample, Seed: t.plan.Seed, Logger: t.Log,
	}, t.engine.Recorded())
	t.census(ctx)
	return err
}

// end closes the history, with how it came to its end.
func (t *trial) end(err error, interrupted bool) {
	last := history.RunEnd{How: "finished", Unhealed: t.result.Unhealed, Reach: t.reach()}
	switch {
	case interrupted:
		last.How = "interrupted"
	case err != nil:
		last.How, last.Error = "aborted", err.Error()
	}
	t.recorder.Record(history.Event{Data: last})
	if err := t.recorder.Close(); err != nil {
		t.Log.Error("the history could not be closed", "err", err)
	}
	if t.undo != nil {
		if err := t.undo.Close(); err != nil {
			t.Log.Error("the undo log could not be closed", "err", err)
		}
	}
	if t.system != nil && t.system.wallet != nil {
		if err := t.system.wallet.Destroy(); err != nil {
			t.Log.Error("identities are left in the run folder", "err", err)
		}
	}
	_ = os.RemoveAll(t.folder.path("charts")) // only downloads
}

// judge makes verdict and reports out of the run folder, as `check` would.
func (r *runner) judge() error {
	return r.step("Judging", func() error {
		m, err := checks.MeasureFolder(r.folder.dir)
		if err != nil {
			return err
		}
		r.result.Verdict = checks.Judge(m, checks.Options{})
		if err := r.result.Verdict.Write(r.folder.dir); err != nil {
			return err
		}
		r.result.Report = reports.New(m, r.result.Verdict)
		r.result.Report.Folder, r.result.Report.Page = r.folder.dir, r.folder.path("report.html")
		if r.Repeat != nil {
			r.result.Report.Repeat = r.Repeat(r.folder.dir)
		}
		return reports.WriteFolder(r.folder.dir, r.result.Report)
	})
}
