package cli

import (
	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters/kind"
)

// gateway is what this program does in the container beside a kind cluster's nodes. Nobody types it.
func (a *app) gateway() *cobra.Command {
	return &cobra.Command{
		Use:    kind.GatewayVerb + " SOCKET",
		Short:  "Dial in this network for whoever asks at SOCKET",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return kind.ServeGateway(cmd.Context(), args[0]) },
	}
}
