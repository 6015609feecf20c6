package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
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

// answered goes with one connected socket, or with why there is none.
type answered struct {
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
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

// refusal is an answer that says no.
type refusal struct {
	text  string
	errno syscall.Errno
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error {
	if r.errno == 0 {
		return nil
	}
	return r.errno
}

func parseAnswer(line []byte) error {
	var a answered
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	if a.Error == "" && a.Errno == 0 {
		return nil
	}
	return &refusal{a.Error, syscall.Errno(a.Errno)} //nolint:gosec // an errno
}

// inside is an address of the cluster's network.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }
