package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
)

func (a *app) clusterDown() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take a cluster down; nothing of it is left",
		Args:  cobra.NoArgs,
	}
	name := nameFlag(cmd)
	all := cmd.Flags().Bool("all", false, "take down all clusters of this user")
	provider := clusterFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *all && cmd.Flags().Changed("name") {
			return usage("--all and --name exclude each other")
		}
		if err := clusters.ValidateName(*name); err != nil {
			return usage("%w", err)
		}
		return a.runDown(cmd.Context(), *provider, *name, *all)
	}
	return cmd
}

func (a *app) runDown(ctx context.Context, provider, name string, all bool) error {
	up, err := a.ours(ctx, provider)
	if err != nil {
		return err
	}
	gone, errs := []string{}, []error{}
	for p, some := range up {
		for _, c := range some {
			if !all && c.Name() != name {
				continue
			}
			began := time.Now()
			if err := p.Down(ctx, c.Name()); err != nil {
				errs = append(errs, err)
				continue
			}
			a.talk("Cluster %s is gone (%.1fs).", c.Name(), time.Since(began).Seconds())
			gone = append(gone, c.Name())
		}
	}
	if len(gone)+len(errs) == 0 {
		a.talk("There is no such cluster: nothing to do.")
	}
	if err := errors.Join(errs...); err != nil || a.output != "json" {
		return err
	}
	return a.print(gone, func(io.Writer) {})
}
