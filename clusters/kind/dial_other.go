//go:build !linux

package kind

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"shakedown.dev/shakedown/clusters"
)

func unsupported() error {
	return fmt.Errorf("%w: sockets cannot be handed over from Docker's virtual machine to %s", clusters.ErrUnsupported, runtime.GOOS)
}

// ServeGateway serves on Linux only.
func ServeGateway(context.Context, string) error { return unsupported() }

func dialThrough(context.Context, string, asked) (net.Conn, error) { return nil, unsupported() }
