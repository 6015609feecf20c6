package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
)

func (a *app) clusterImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image NAME=SOURCE",
		Short: "Give a cluster that is up the source of an image",
		Long: "SOURCE is host:DIR (programs of this machine over its own root filesystem), a docker-save archive, an OCI\n" +
			"layout, or a registry reference. Pods that start from now on find it by NAME.",
		Example: "  shakedown cluster image teleport:dev=host:./build",
		Args:    cobra.ExactArgs(1),
	}
	name := nameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		image, err := clusters.ParseImage(args[0])
		if err != nil {
			return usage("%w", err)
		}
		c, err := a.find(cmd.Context(), *name)
		if err != nil {
			return err
		}
		adder, ok := c.(clusters.ImageAdder)
		if !ok {
			return errors.New("this cluster takes no images while it is up")
		}
		return adder.AddImage(cmd.Context(), image)
	}
	return cmd
}
