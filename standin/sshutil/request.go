package sshutil

import (
	"fmt"
	"net"
	"strings"
)

// ProxyRequest is the destination named by a "proxy:" subsystem. No host means the auth service of the cluster.
type ProxyRequest struct {
	Host, Port string
	Cluster    string // "" is the proxy's own
}

// ParseProxyRequest reads the forms proxy:host:port, proxy:host:port@cluster, proxy:host:port@namespace@cluster and proxy:@cluster.
func ParseProxyRequest(name string) (ProxyRequest, error) {
	malformed := fmt.Errorf("invalid format for proxy request: %q, expected 'proxy:host:port@cluster'", name)
	body, ok := strings.CutPrefix(name, "proxy:")
	if !ok {
		return ProxyRequest{}, malformed
	}
	parts := strings.SplitN(body, "@", 3)
	var req ProxyRequest
	if len(parts) > 1 {
		req.Cluster = parts[len(parts)-1]
	}
	if parts[0] == "" && len(parts) == 2 {
		if req.Cluster == "" {
			return ProxyRequest{}, fmt.Errorf("invalid format for proxy request: missing cluster name or target host in %q", name)
		}
		return req, nil
	}
	host, port, err := net.SplitHostPort(parts[0])
	if err != nil || host == "" {
		return ProxyRequest{}, malformed
	}
	req.Host, req.Port = host, port
	return req, nil
}
