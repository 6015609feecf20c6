package existing

import (
	"context"
	"net"
)

// The ways to a pod, as reports have them.
const (
	direct    = "direct"
	forwarded = "port-forward"
	inGateway = "gateway"
)

// connect goes the way that was asked for. It is not found out by trying: a gateway that accepts or refuses for
// addresses which it does not know looks like a pod that does.
func (c *Cluster) connect(ctx context.Context, network string, to endpoint) (net.Conn, error) {
	if c.way == direct {
		return c.direct(ctx, network, to.address())
	}
	conn, err := c.forward(ctx, to)
	if err != nil {
		return nil, err // not a nil connection in an interface
	}
	return conn, nil
}
