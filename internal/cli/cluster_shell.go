package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
)

func (a *app) clusterShell() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shell [-- CMD ARG…]",
		Short: "A shell, or one command, inside the cluster's network",
		Long: "Inside, pods and Services are reachable by their own addresses and names, and kubectl finds the cluster.\n" +
			"The files are those of this machine. The exit status is that of the command.",
		Example: "  shakedown cluster shell\n  shakedown cluster shell -- curl -sk https://kubernetes.default.svc/version",
	}
	name := nameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.runShell(cmd.Context(), *name, args)
	}
	return cmd
}

func (a *app) runShell(ctx context.Context, name string, argv []string) error {
	c, err := a.find(ctx, name)
	if err != nil {
		return err
	}
	spawner, ok := c.(clusters.Spawner)
	if !ok {
		return errors.New("programs of this machine cannot run in that cluster's network")
	}
	if len(argv) == 0 {
		argv = []string{userShell()}
	}
	code, err := spawner.Spawn(ctx, clusters.Command{
		Argv: argv, Env: append(os.Environ(), "SHAKEDOWN_CLUSTER="+name),
		TTY: isTerminal(a.In) && isTerminal(a.Out), Stdin: a.In, Stdout: a.Out, Stderr: a.Err,
	})
	if err != nil {
		return err
	}
	if code != 0 {
		return statusError(code)
	}
	return nil
}

func userShell() string {
	if shell := os.Getenv("SHELL"); shell != "" {
		return shell
	}
	return "/bin/sh"
}
