package existing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// directTimeout is how long a try may take that is to show whether pods are reached from here; where less than twice
// of it is left, half of what is.
const directTimeout = 2 * time.Second

// The ways to a pod.
const (
	unknown = iota
	direct
	forwarded
)

// way is how pods are reached. It is found out once, with the first connection that proves anything, and kept: figures
// of one run that were measured in two ways could not be compared.
type way struct {
	found    atomic.Int32
	deciding chan struct{} // holds one: who tries
}

func newWay() *way { return &way{deciding: make(chan struct{}, 1)} }

// String is the fact as reports have it; empty while nobody connected.
func (w *way) String() string {
	return map[int32]string{direct: "direct", forwarded: "port-forward"}[w.found.Load()]
}

// connect goes the way that was found, or finds it.
func (c *Cluster) connect(ctx context.Context, network string, to endpoint) (net.Conn, error) {
	switch c.way.found.Load() {
	case direct:
		return c.direct(ctx, network, to.address())
	case forwarded:
		conn, err := c.forward(ctx, to)
		if err != nil {
			return nil, err // not a nil connection in an interface
		}
		return conn, nil
	}
	select {
	case c.way.deciding <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.way.found.Load() != unknown {
		<-c.way.deciding
		return c.connect(ctx, network, to)
	}
	defer func() { <-c.way.deciding }()
	return c.decide(ctx, network, to)
}

// refusalLag is how long the kubelet is given to say that the pod refuses a connection, too.
const refusalLag = time.Second

// decide tries both ways. Only a connection proves its way: a refusal may be the pod's, or that of a firewall or a
// router which answers for addresses it does not know. An end of ctx proves nothing, nor does a failure of both: the
// next connection decides.
func (c *Cluster) decide(ctx context.Context, network string, to endpoint) (net.Conn, error) {
	conn, err := c.tryDirect(ctx, network, to)
	if err == nil {
		c.way.found.Store(direct)
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	through, other := c.forward(ctx, to)
	switch {
	case other == nil && errors.Is(err, syscall.ECONNREFUSED) && through.refused(ctx):
		return nil, errors.Join(err, through.Close())
	case other == nil:
		c.way.found.Store(forwarded)
		return through, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("neither from here (%w) nor through the API server: %w", err, other)
}

func (c *Cluster) tryDirect(ctx context.Context, network string, to endpoint) (net.Conn, error) {
	bound := directTimeout
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return c.direct(ctx, network, to.address())
}
