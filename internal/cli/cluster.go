package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

func (a *app) cluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Bring a Kubernetes cluster up and down, and work on it",
		Long: "The embedded cluster is a real Kubernetes without Docker, in Linux namespaces: up in seconds, and gone\n" +
			"without a trace when its first process ends. With --cluster kind it is one of Docker containers, which stays\n" +
			"until it is taken down.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return usage("cluster: no verb given")
		},
	}
	cmd.AddCommand(a.clusterUp(), a.clusterDown(), a.clusterList(), a.clusterKubeconfig(), a.clusterShell(),
		a.clusterNode(), a.clusterImage(), a.clusterLogs())
	return cmd
}

// find returns a cluster that is up.
func (a *app) find(ctx context.Context, name string) (clusters.Cluster, error) {
	up, err := a.ours(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, some := range up {
		for _, c := range some {
			if c.Name() == name {
				return c, nil
			}
		}
	}
	return nil, exit.Hint(&clusters.NameError{Name: name, Err: clusters.ErrNotFound},
		"shakedown cluster list shows those that are up; shakedown cluster up makes one")
}

// nameFlag adds --name.
func nameFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("name", clusters.DefaultName, "name of the cluster")
}

// plural is "1 node" or "3 nodes".
func plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
