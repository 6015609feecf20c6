// Package node is one node of the cluster: the kubelet as it is upstream, over
// the runtime of package cri, with a kube-proxy beside it. The process is the
// first of the node's PID namespace, so that its end is a power cut.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
)

// Run is a node until the process ends. args names its Config file.
func Run(args []string) error {
	var cfg Config
	if err := readConfig(args, &cfg); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", cfg.Name)
	if err := unix.Sethostname([]byte(cfg.Name)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	host, err := enterRoot(cfg, log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	proxyEnded := make(chan error, 1)
	go func() { proxyEnded <- keepProxy(ctx, cfg) }()
	if err := startKubelet(ctx, cfg, host, log); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	select {
	case err := <-proxyEnded:
		return err
	case <-ctx.Done():
		return nil
	}
}

func startKubelet(ctx context.Context, cfg Config, host hostRoot, log *slog.Logger) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	runtime, images, err := newRuntime(cfg, host, log)
	if err != nil {
		return err
	}
	var limits Limits
	limits.Hold, limits.Why = runtime.Limits()
	if err := writeLimits(cfg.Dir, limits); err != nil {
		return err
	}
	server, err := kubeletServer(cfg, limits.label())
	if err != nil {
		return err
	}
	deps, err := dependencies(ctx, cfg, server, runtime, images)
	if err != nil {
		return err
	}
	return kubeletapp.RunKubelet(ctx, server, deps)
}

// keepProxy runs the node's kube-proxy and starts it again when it exits by
// itself, as its DaemonSet would. Killed by a signal it takes the node along.
func keepProxy(ctx context.Context, cfg Config) error {
	out, err := os.OpenFile(cfg.ProxyLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	for {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", cfg.Proxy...)
		cmd.Args[0] = "kubelite"
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Run()
		if ctx.Err() != nil {
			return nil
		}
		if cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
			return fmt.Errorf("kube-proxy ended unexpectedly: %w", err)
		}
		time.Sleep(time.Second)
	}
}
