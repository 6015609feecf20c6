package tunnel

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// PingResponse is what a proxy says about itself at /webapi/ping and /webapi/find.
type PingResponse struct {
	Auth             *AuthSettings `json:"auth,omitempty"`
	Proxy            ProxySettings `json:"proxy"`
	ServerVersion    string        `json:"server_version"`
	MinClientVersion string        `json:"min_client_version"`
	ClusterName      string        `json:"cluster_name"`
}

// AuthSettings say how people log in.
type AuthSettings struct {
	Type             string         `json:"type"`
	SecondFactor     string         `json:"second_factor,omitempty"`
	Local            *LocalSettings `json:"local,omitempty"`
	HasMOTD          bool           `json:"has_motd"`
	PrivateKeyPolicy string         `json:"private_key_policy,omitempty"`
}

// LocalSettings name the local connector.
type LocalSettings struct {
	Name string `json:"name"`
}

// ProxySettings are a proxy's addresses.
type ProxySettings struct {
	Kube       KubeSettings `json:"kube"`
	SSH        SSHSettings  `json:"ssh"`
	DB         struct{}     `json:"db"`
	TLSRouting bool         `json:"tls_routing_enabled"`
}

// KubeSettings are a proxy's addresses for Kubernetes.
type KubeSettings struct {
	Enabled    bool   `json:"enabled,omitempty"`
	PublicAddr string `json:"public_addr,omitempty"`
	ListenAddr string `json:"listen_addr,omitempty"`
}

// SSHSettings are a proxy's addresses for SSH, tunnels and the web.
type SSHSettings struct {
	ListenAddr       string `json:"listen_addr,omitempty"`
	TunnelListenAddr string `json:"tunnel_listen_addr,omitempty"`
	WebListenAddr    string `json:"web_listen_addr,omitempty"`
	PublicAddr       string `json:"public_addr,omitempty"`
	SSHPublicAddr    string `json:"ssh_public_addr,omitempty"`
	TunnelPublicAddr string `json:"ssh_tunnel_public_addr,omitempty"`
}

// tunnelAddr is where agents go, as the real client works it out: a proxy with a public address sends them there.
func (p ProxySettings) tunnelAddr() string {
	if p.TLSRouting {
		return cmp.Or(withDefaultPort(p.SSH.PublicAddr, portOf(p.SSH.WebListenAddr, "3080")), p.SSH.WebListenAddr)
	}
	port := portOf(p.SSH.TunnelListenAddr, "3024")
	port = portOf(p.SSH.TunnelPublicAddr, port)
	return cmp.Or(
		withDefaultPort(p.SSH.TunnelPublicAddr, port),
		withPort(p.SSH.SSHPublicAddr, port),
		withPort(p.SSH.PublicAddr, port),
		p.SSH.TunnelListenAddr,
		p.SSH.WebListenAddr)
}

func portOf(addr, fallback string) string {
	if _, port, err := net.SplitHostPort(addr); err == nil && port != "" {
		return port
	}
	return fallback
}

func withDefaultPort(addr, port string) string {
	if addr == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(addr, port)
}

func withPort(addr, port string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	if addr == "" {
		return ""
	}
	return net.JoinHostPort(addr, port)
}

// Dialer dials the tunnel port of the proxies at one address, after asking there where that is.
type Dialer struct {
	ProxyAddr string // web address
	Insecure  bool   // do not verify the web certificate
}

const dialTimeout = 30 * time.Second

// Dial connects to a proxy for an agent.
func (d Dialer) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	settings, err := d.find(ctx)
	if err != nil {
		return nil, err
	}
	addr := reachable(settings.Proxy.tunnelAddr(), d.ProxyAddr)
	if !settings.Proxy.TLSRouting {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", addr)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("tunnel address %q: %w", addr, err)
	}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, NextProtos: []string{ALPN}, InsecureSkipVerify: d.Insecure}}
	return dialer.DialContext(ctx, "tcp", addr)
}

// reachable replaces an unspecified host, as of a listen address, by the one the proxy was reached at.
func reachable(addr, proxyAddr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr
	}
	if host, _, err = net.SplitHostPort(proxyAddr); err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// find asks a proxy for its settings over a connection of its own, so that each question may meet another proxy.
func (d Dialer) find(ctx context.Context) (PingResponse, error) {
	var out PingResponse
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: d.Insecure}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+d.ProxyAddr+"/webapi/find", nil)
	if err != nil {
		return out, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return out, fmt.Errorf("find proxy settings: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("find proxy settings at %s: %s", d.ProxyAddr, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("find proxy settings at %s: %w", d.ProxyAddr, err)
	}
	return out, nil
}
