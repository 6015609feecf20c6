package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// logWriter is a cluster with a log of its own outside Kubernetes.
type logWriter interface {
	WriteLog(ctx context.Context, w io.Writer) error
}

func (a *app) clusterLogs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Print the log of the cluster's own processes",
		Args:  cobra.NoArgs,
	}
	name := nameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.find(cmd.Context(), *name)
		if err != nil {
			return err
		}
		w, ok := c.(logWriter)
		if !ok {
			return errors.New("this cluster keeps no log of its own")
		}
		return w.WriteLog(cmd.Context(), a.Out)
	}
	return cmd
}
