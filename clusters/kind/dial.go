package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	wire "shakedown.dev/shakedown/clusters/gateway"
)

// GatewayVerb is the hidden verb of the program that serves in the gateway.
const GatewayVerb = "gateway"

// dialTimeout is longer than the kernel's first SYN retries; callers with less patience close their end.
const dialTimeout = 30 * time.Second

// clusterDomain is kubeadm's.
const clusterDomain = "cluster.local"

// asked is what a caller of the gateway wants: a connection to Address, whose name DNS knows.
type asked struct {
	Network string `json:"network"`
	Address string `json:"address"`
	DNS     string `json:"dns,omitempty"`
}

// dialer resolves names with the cluster's DNS alone.
func dialer(dns string) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(dns, "53"))
		},
	}}
}

// absolute completes a name of a Service as a pod's search list does: "proxy.teleport.svc", "proxy.teleport".
func absolute(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	switch {
	case net.ParseIP(host) != nil || strings.HasSuffix(host, "."):
		return address, nil
	case strings.HasSuffix(host, "."+clusterDomain):
		host += "."
	case strings.HasSuffix(host, ".svc"):
		host += "." + clusterDomain + "."
	case strings.Count(host, ".") == 1:
		host += ".svc." + clusterDomain + "."
	}
	return net.JoinHostPort(host, port), nil
}

func parseAnswer(line []byte) error {
	var a wire.Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	return a.Err()
}

// inside is an address of the cluster's network.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }
