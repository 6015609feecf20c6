package app

import (
	"context"
	"fmt"
	"net"
	"os/signal"
	"runtime/debug"
	"syscall"

	"shakedown.dev/shakedown/standin/etcdserver"
	"shakedown.dev/shakedown/standin/flags"
)

// etcd is `standin etcd`: shared state for several auths where there is no etcd.
func etcd(ctx context.Context, args []string, s Streams) error {
	dir, addr := "/var/lib/etcd", "127.0.0.1:2379"
	rest, err := flags.Parse(args, []flags.Flag{{Name: "data-dir", Text: &dir}, {Name: "listen", Text: &addr}})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: standin etcd [--data-dir DIR] [--listen HOST:PORT]", errUsage)
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	server, err := etcdserver.Open(dir)
	if err != nil {
		return err
	}
	defer server.Close()
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for etcd: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(s.Err, "Serving etcd's key-value API (a stand-in for etcd) on %s.\n", lis.Addr())
	return server.Serve(lis)
}
