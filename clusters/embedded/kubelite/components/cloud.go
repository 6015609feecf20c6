package components

import (
	"context"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/cloud"
)

// runCloud gives Services their load balancers and claims their volumes.
func runCloud(args []string) error {
	flags := flag.NewFlagSet("cloud", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `FILE`")
	storage := flags.String("storage", "", "`DIRECTORY` that holds the volumes")
	balancers := flags.String("balancer-range", cloud.DefaultLoadBalancerRange, "`CIDR` of load balancer addresses")
	name := flags.String("cluster", "", "cluster `NAME`, for messages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	balancerRange, err := netip.ParsePrefix(*balancers)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return cloud.Run(ctx, config, cloud.Options{
		ClusterName: *name, Dir: *storage, LoadBalancerRange: balancerRange,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}
