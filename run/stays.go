package run

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
)

// onExisting is the provider whose clusters are not ours.
const onExisting = "existing"

// permitted is nil if the run may do here what it plans, before anything is touched: on a cluster that is not ours
// faults need the word of the namespace's owner.
func (r *runner) permitted(ctx context.Context) error {
	facts, err := r.cluster.Facts(ctx)
	if err != nil {
		return err
	}
	r.stays = r.stays || !facts.Owned
	if facts.Owned || !breaks(r.plan.Timeline) {
		return nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	namespace := r.plan.Teleport.Namespace
	if err := chaos.Allowed(ctx, client, namespace); err != nil {
		return exit.Hint(exit.With(exit.Usage, fmt.Errorf("the scenario breaks things: %w", err)),
			fmt.Sprintf("if that is meant: kubectl create namespace %[1]s; kubectl label namespace %[1]s %[2]s=%[3]s", namespace, chaos.AllowLabel, chaos.AllowValue))
	}
	return nil
}

// breaks says whether a timeline has faults.
func breaks(timeline []scenarios.Step) bool {
	for _, s := range timeline {
		if s.Fault && s.Do != nil {
			return true
		}
	}
	return false
}

func (r *runner) client(ctx context.Context) (kubernetes.Interface, error) {
	config, err := r.cluster.RESTConfig(ctx)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// ephemeral says whether what is installed is to go while the cluster stays, whoever ends the run.
func (r *runner) ephemeral() bool { return r.stays && r.Keep != KeepAlways && r.Keep != KeepOnFailure }

// leave takes away what the run installed on a cluster that stays.
func (r *runner) leave(ctx context.Context, keep bool) error {
	if keep || !r.touched {
		return nil
	}
	return r.step("Uninstalling what the run installed", func() error {
		config, err := r.cluster.RESTConfig(ctx)
		if err != nil {
			return err
		}
		return helm.Leave(ctx, config, r.plan.Teleport.Namespace, r.env.Run, r.Log)
	})
}

// reach is how load reaches pods, if there are several ways and one was found.
func (r *runner) reach() string {
	if c, ok := r.cluster.(clusters.Reacher); ok {
		return c.Reach()
	}
	return ""
}
