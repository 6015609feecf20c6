package cli

import (
	"context"
	"net"
	"time"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters/gateway"
	"shakedown.dev/shakedown/clusters/kind"
)

// gateway is what this program does in the container beside a kind cluster's nodes, which hands sockets over, and in a
// pod of a cluster that somebody else made, where it carries connections. Nobody types it.
func (a *app) gateway() *cobra.Command {
	var listen string
	var idle time.Duration
	cmd := &cobra.Command{
		Use:    kind.GatewayVerb + " [SOCKET]",
		Short:  "Dial in this network for whoever asks",
		Hidden: true,
		Args:   cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && listen == "":
				return kind.ServeGateway(cmd.Context(), args[0])
			case len(args) == 0 && listen != "":
				return carry(cmd.Context(), listen, idle)
			}
			return usage("gateway: want SOCKET or --listen")
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "carry connections for who connects to this `ADDRESS`")
	cmd.Flags().DurationVar(&idle, "idle", 0, "end when nobody was connected for so long; 0 is never")
	return cmd
}

func carry(ctx context.Context, listen string, idle time.Duration) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	return (&gateway.Server{Idle: idle}).Serve(ctx, l)
}
