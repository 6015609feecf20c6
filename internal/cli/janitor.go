package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/undo"
)

// janitor is what a run's Job in the cluster does. People have heal for it.
func (a *app) janitor() *cobra.Command {
	j := undo.Janitor{}
	cmd := &cobra.Command{
		Use: "janitor", Hidden: true, Args: cobra.NoArgs,
		Short: "Inside a cluster: undo what a run changed when its runner has vanished",
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.tidy(cmd.Context(), j) },
	}
	cmd.Flags().StringVar(&j.Run, "run", "", "`ID` of the run")
	cmd.Flags().StringVar(&j.Namespace, "namespace", "", "of the run's lease and intents")
	_ = cmd.MarkFlagRequired("run") // the flags are there
	_ = cmd.MarkFlagRequired("namespace")
	return cmd
}

func (a *app) tidy(ctx context.Context, j undo.Janitor) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return exit.Hint(err, "the janitor runs as a Job of a run; shakedown heal does the same by hand")
	}
	if j.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	j.Log = slog.New(slog.NewTextHandler(a.Err, nil))
	results, err := j.Do(ctx)
	for _, r := range results {
		j.Log.Info("undo", "what", r.Entry.Change.What, "tries", r.Tries, "checked", r.Checked, "err", r.Err)
	}
	if err != nil {
		return err
	}
	if left := undo.Failed(results); len(left) > 0 {
		// The Job ends all the same: another try by the API alone would change nothing, and its log says why.
		j.Log.Error("left to shakedown heal", "changes", len(left), "run", j.Run)
		return nil
	}
	return undo.Leave(ctx, j.Client, j.Namespace, j.Run)
}
