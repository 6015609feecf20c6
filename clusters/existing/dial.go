package existing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
)

// cacheLag is how long an address or name that the watch does not know yet is waited for.
const cacheLag = time.Second

// endpoint is a port of a pod.
type endpoint struct {
	namespace, pod string // empty: only the address is known, which is enough from here
	ip             string
	port           int
}

func (e endpoint) address() string { return net.JoinHostPort(e.ip, strconv.Itoa(e.port)) }

// DialContext connects to pods and Services by their own addresses and names. Through a port-forward, that nothing
// listens in the pod is told by the first Read or Write: the protocol has no other place for it.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return nil, err
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: inside{network, address}, Err: err}
}

func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.way == inGateway {
		return c.through(ctx, network, address)
	}
	if !strings.HasPrefix(network, "tcp") {
		return nil, fmt.Errorf("%s: only TCP is carried to an existing cluster", network)
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", text, err)
	}
	to, err := c.await(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return c.connect(ctx, network, to)
}

// await is find, which it asks again for a moment: what was just made may not have been seen yet.
func (c *Cluster) await(ctx context.Context, host string, port int) (endpoint, error) {
	to, err := c.find(host, port)
	if !errors.Is(err, errUnknown) {
		return to, err
	}
	until := time.Now().Add(cacheLag)
	for errors.Is(err, errUnknown) && time.Now().Before(until) {
		select {
		case <-ctx.Done():
			return endpoint{}, context.Cause(ctx)
		case <-time.After(cacheLag / 20):
		}
		to, err = c.find(host, port)
	}
	return to, err
}

// errUnknown is an address or a name that the watch has not seen.
var errUnknown = errors.New("neither a pod nor a Service has it")

// find is the pod behind an address: a pod's own, or one ready pod of a Service's, as kube-proxy would choose. It asks
// the watch alone, so that an API server that is away fails no connection and costs none time.
func (c *Cluster) find(host string, port int) (endpoint, error) {
	if net.ParseIP(host) == nil {
		name, namespace, err := serviceName(host)
		if err != nil {
			return endpoint{}, err
		}
		return c.cache.behind(namespace+"/"+name, port)
	}
	if key, ok := c.cache.serviceAt(host); ok {
		return c.cache.behind(key, port)
	}
	if p, ok := c.cache.podAt(host); ok {
		return endpoint{p.Namespace, p.Name, host, port}, nil
	}
	if c.way == direct {
		return endpoint{ip: host, port: port}, nil
	}
	return endpoint{}, fmt.Errorf("address %s: %w", host, errUnknown)
}

// serviceName reads NAME.NAMESPACE, also with .svc and a domain behind it.
func serviceName(host string) (name, namespace string, err error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return "", "", fmt.Errorf("%s: want an address, or a Service as NAME.NAMESPACE.svc", host)
	}
	return parts[0], parts[1], nil
}

// oneOf chooses as kube-proxy does: any.
func oneOf(all []endpoint) endpoint { return all[rand.IntN(len(all))] }

// inside is an address of the cluster's network.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }
