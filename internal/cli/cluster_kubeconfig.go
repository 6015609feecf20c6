package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
)

func (a *app) clusterKubeconfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig for kubectl, helm and the like, or write it to a file",
		Args:  cobra.NoArgs,
	}
	name := nameFlag(cmd)
	file := cmd.Flags().String("file", "", "write it to this `FILE`, mode 0600, instead of standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.find(cmd.Context(), *name)
		if err != nil {
			return err
		}
		if *file != "" {
			return writeKubeconfig(cmd.Context(), c, *file)
		}
		text, err := c.Kubeconfig(cmd.Context())
		if err != nil {
			return err
		}
		_, err = a.Out.Write(text)
		return err
	}
	return cmd
}

// writeKubeconfig replaces the file as a whole: a reader never sees half of it, and the key in it is
// never readable by others.
func writeKubeconfig(ctx context.Context, c clusters.Cluster, file string) error {
	text, err := c.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}
