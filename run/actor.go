package run

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/pods"
)

// Do carries out one action of the timeline; it implements timeline.Actor. A
// fault's step ends when the fault is proved to bite.
func (t *trial) Do(ctx context.Context, step scenarios.Step, due time.Duration) error {
	switch step.Do.Action {
	case "helmUpgrade":
		return t.upgrade(ctx, step)
	case "helmRollback":
		return t.rollback(ctx, step)
	case "restart":
		return t.restart(ctx, step)
	case "scale":
		return t.scale(ctx, step)
	case "heal":
		return t.keeper.Heal(ctx, step.Do.Args.String("of"))
	}
	_, err := t.keeper.Inject(ctx, step, due)
	return err
}

func (t *trial) upgrade(ctx context.Context, step scenarios.Step) error {
	args, to := step.Do.Args, t.plan.Teleport.From
	if args.String("to") == "target" && t.plan.Teleport.To != nil {
		to = *t.plan.Teleport.To
	}
	to.Values = helm.Merge(to.Values, args.Map("values"))
	about := history.Rollout{Verb: "upgrade", From: t.plan.Teleport.From.Version, To: to.Version}
	return t.rollout(ctx, step, about, func(ctx context.Context) error {
		return expected(args.String("expect"), t.system.apply(ctx, to, func(ctx context.Context, r helm.Release) (helm.Revision, error) {
			r.RollbackOnFailure, r.Timeout = args.Bool("rollbackOnFailure"), args.Duration("timeout")
			return t.system.helm.Upgrade(ctx, r)
		}))
	})
}

// patienceOf is how long a rollout may take in all: one that rolls back takes its timeout once more for that,
// and some time to come to rest.
func patienceOf(args scenarios.Args) time.Duration {
	timeout := args.Duration("timeout")
	if args.Bool("rollbackOnFailure") {
		return 2*timeout + time.Minute
	}
	return timeout
}

// expected judges Helm's answer by what the scenario expects of it.
func expected(want string, err error) error {
	switch {
	case want == "any", want == "failure" && err != nil:
		return nil
	case want == "failure":
		return fmt.Errorf("helm succeeded where the scenario expects it to fail")
	}
	return err
}

func (t *trial) rollback(ctx context.Context, step scenarios.Step) error {
	about := history.Rollout{Verb: "rollback"}
	return t.rollout(ctx, step, about, func(ctx context.Context) error {
		_, err := t.system.helm.Rollback(ctx, t.plan.Teleport.Release, step.Do.Args.Int("revision"), timeoutOf(ctx))
		return err
	})
}

// restart does what kubectl rollout restart does.
func (t *trial) restart(ctx context.Context, step scenarios.Step) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339))
	return t.rollout(ctx, step, history.Rollout{Verb: "restart"}, func(ctx context.Context) error {
		return t.patchWorkload(ctx, step.Do.Args.String("component"), patch)
	})
}

func (t *trial) scale(ctx context.Context, step scenarios.Step) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, step.Do.Args.Int("replicas"))
	return t.rollout(ctx, step, history.Rollout{Verb: "scale"}, func(ctx context.Context) error {
		return t.patchWorkload(ctx, step.Do.Args.String("component"), patch)
	})
}

// patchWorkload patches the Deployment or StatefulSet of a component.
func (t *trial) patchWorkload(ctx context.Context, component, patch string) error {
	apps, ns := t.system.client.AppsV1(), t.plan.Teleport.Namespace
	by := metav1.ListOptions{LabelSelector: pods.Selector(t.releaseOf(component), component)}
	deployments, err := apps.Deployments(ns).List(ctx, by)
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		_, err := apps.Deployments(ns).Patch(ctx, d.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	sets, err := apps.StatefulSets(ns).List(ctx, by)
	if err != nil {
		return err
	}
	for _, d := range sets.Items {
		_, err := apps.StatefulSets(ns).Patch(ctx, d.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	return fmt.Errorf("component %q has no Deployment or StatefulSet in namespace %s", component, ns)
}

func (t *trial) releaseOf(component string) string {
	if component == pods.Agent {
		return agentsRelease
	}
	return t.plan.Teleport.Release
}

// rollout does change as a rollout with all its events. It ends when every
// workload is updated and the old pods are gone, which is later than Helm's
// return: the sessions of the last old pod drop in between.
func (t *trial) rollout(ctx context.Context, step scenarios.Step, about history.Rollout, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patienceOf(step.Do.Args))
	defer cancel()
	about.ID, about.Entry, about.Release = step.ID, step.Name, t.plan.Teleport.Release
	say := func(stage history.RolloutStage, outcome history.Outcome, err error) {
		about.Stage = stage
		if about.Error = ""; err != nil {
			about.Error = err.Error()
		}
		t.state.Record(history.Event{Subject: about.Release, Outcome: outcome, Data: about})
	}
	say(history.RolloutStart, "", nil)
	say(history.RolloutHelmCalled, "", nil)
	err := change(ctx)
	say(history.RolloutHelmReturned, outcomeOf(err), err)
	if err == nil {
		err = t.atRest(ctx)
	}
	say(history.RolloutEnd, outcomeOf(err), err)
	return err
}

// atRest returns when every workload is updated and the old pods are gone.
func (t *trial) atRest(ctx context.Context) error {
	err := t.watch.CatchUp(ctx) // or it would answer for the time before the change
	if err == nil {
		err = t.state.Await(ctx, func() error { return t.state.Settled(pods.Auth, pods.Proxy) })
	}
	if err != nil {
		return fmt.Errorf("the rollout did not come to rest: %w", err)
	}
	return nil
}

func outcomeOf(err error) history.Outcome {
	if err != nil {
		return history.Failed
	}
	return history.OK
}
