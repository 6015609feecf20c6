package cli

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/undo"
)

// leaveTime bounds the removal of what a dead run installed.
const leaveTime = 5 * time.Minute

// uninstall takes away what a dead run installed on a cluster that stays, if it was to end with the run.
func (h *healing) uninstall(ctx context.Context, run undo.Head, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	lefts, err := helm.Lefts(ctx, client, "", run.Run)
	if err != nil {
		return err
	}
	if run.Ephemeral { // perhaps it died before its first release
		lefts = append(lefts, helm.Left{Run: run.Run, Namespace: run.Namespace, Ephemeral: true})
	}
	for _, left := range lefts {
		if !left.Ephemeral {
			continue
		}
		if err := helm.Leave(ctx, config, left.Namespace, left.Run, h.log); err != nil {
			return err
		}
		if len(left.Releases) > 0 {
			h.talk("What run %s had installed in namespace %s is gone.", left.Run, left.Namespace)
		}
	}
	return nil
}
