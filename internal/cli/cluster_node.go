package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

func (a *app) clusterNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node NODE " + strings.Join(actionNames(), "|"),
		Short: "Do to a node what a data centre does to it",
		Long: "  kill       kubelet and all containers end at once, as in a power cut\n" +
			"  pause      they stop where they are; connections stay\n" +
			"  resume     they go on\n" +
			"  partition  no packet passes between the node and the others (--from, default all)\n" +
			"  heal       packets pass again\n" +
			"  restart    the node boots anew",
		Example: "  shakedown cluster node node2 kill\n  shakedown cluster node node1 partition --from node2,api",
		Args:    cobra.ExactArgs(2),
	}
	name := nameFlag(cmd)
	from := cmd.Flags().StringSlice("from", nil, "for partition: the nodes to cut it from, and api for the API server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.runNode(cmd.Context(), *name, args[0], clusters.NodeAction(args[1]), *from)
	}
	return cmd
}

func (a *app) runNode(ctx context.Context, name, node string, action clusters.NodeAction, from []string) error {
	if !slices.Contains(clusters.NodeActions(), action) {
		return usage("node action %q: want %s", action, strings.Join(actionNames(), ", "))
	}
	if len(from) > 0 && action != clusters.NodePartition {
		return usage("--from goes with partition only")
	}
	c, err := a.find(ctx, name)
	if err != nil {
		return err
	}
	operator, ok := c.(clusters.NodeOperator)
	if !ok {
		return errors.New("this cluster has no node operations")
	}
	if err := operator.Available(action); err != nil {
		return fmt.Errorf("%s node %s: not available here: %w", action, node, err)
	}
	if err := operate(ctx, operator, action, node, from); err != nil {
		return exit.Hint(err, "shakedown cluster list -o json shows the nodes")
	}
	a.talk("Node %s: %s done.", node, action)
	return nil
}

func operate(ctx context.Context, o clusters.NodeOperator, action clusters.NodeAction, node string, from []string) error {
	switch action {
	case clusters.NodeKill:
		return o.Kill(ctx, node)
	case clusters.NodePause:
		return o.Pause(ctx, node)
	case clusters.NodeResume:
		return o.Resume(ctx, node)
	case clusters.NodePartition:
		return o.Partition(ctx, node, from...)
	case clusters.NodeHeal:
		return o.Heal(ctx, node)
	case clusters.NodeRestart:
		return o.Restart(ctx, node)
	}
	return fmt.Errorf("node action %q is not known", action)
}

func actionNames() []string {
	var names []string
	for _, action := range clusters.NodeActions() {
		names = append(names, string(action))
	}
	return names
}
