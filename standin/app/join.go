package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/auth"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/process"
)

// errConfig marks an error that trying again does not mend.
var errConfig = errors.New("configuration")

// startMember joins, connects and starts one service, and tries again until it
// has worked, ctx ends, or the configuration turns out to be wrong.
func (d *daemon) startMember(ctx context.Context, m member, local *auth.Auth) error {
	wait := 500 * time.Millisecond
	for ctx.Err() == nil {
		err := d.tryMember(ctx, m, local)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errConfig) {
			return err
		}
		d.log.Warn("Service failed to establish connection to cluster.", "component", m.name, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(wait*2, 8*time.Second)
	}
	return nil
}

func (d *daemon) tryMember(ctx context.Context, m member, local *auth.Auth) error {
	target, err := d.target(ctx, m.cfg)
	if err != nil {
		return err
	}
	identity, err := d.identity(ctx, m, local, target)
	if err != nil {
		return err
	}
	client, err := authclient.Connect(target, identity)
	if err != nil {
		return err
	}
	check, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if _, err := client.ClusterConfig(check); err != nil {
		return errors.Join(fmt.Errorf("connect to auth: %w", err), client.Close())
	}
	svc, err := m.new(process.Env{
		Config: m.cfg, Auth: client, Behaviour: d.env.Behaviour, Faults: d.faults, Metrics: d.registry,
		Log: d.log.With("component", m.name), Scale: d.env.Scale, Insecure: d.options.Insecure,
		TunnelBackoff: d.env.Backoff,
		Heartbeat:     func(_ string, err error) { d.health.Heartbeat(m.name, err) },
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w: %w", d.config.Path, errConfig, err), client.Close())
	}
	return d.super.Start(ctx, m.name, svc)
}

// target says where the auth is. On the way through a proxy the cluster's name
// is needed first; the proxy's web certificate is verified then.
func (d *daemon) target(ctx context.Context, cfg *config.Config) (authclient.Target, error) {
	t := authclient.Target{Addrs: cfg.AuthAddresses(), Proxy: cfg.Global.ProxyServer, Insecure: d.options.Insecure, Log: d.log}
	if len(t.Addrs) > 0 {
		return t, nil
	}
	if _, _, err := net.SplitHostPort(t.Proxy); err != nil {
		t.Proxy = net.JoinHostPort(t.Proxy, "3080")
	}
	name, err := pingProxy(ctx, t.Proxy, d.options.Insecure)
	t.Cluster = name
	return t, err
}

// pingProxy asks a proxy for its cluster's name.
func pingProxy(ctx context.Context, proxyAddr string, insecure bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+proxyAddr+"/webapi/ping", nil)
	if err != nil {
		return "", fmt.Errorf("ask proxy %s: %w", proxyAddr, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask proxy %s: %w", proxyAddr, err)
	}
	defer resp.Body.Close()
	var ping struct {
		ClusterName string `json:"cluster_name"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&ping); err != nil || ping.ClusterName == "" {
		return "", fmt.Errorf("ask proxy %s: no cluster name in its answer (%s): %w", proxyAddr, resp.Status, err)
	}
	return ping.ClusterName, nil
}

// identity returns the identity saved earlier, or joins for a new one.
func (d *daemon) identity(ctx context.Context, m member, local *auth.Auth, target authclient.Target) (*authclient.Identity, error) {
	p := authclient.JoinParams{
		Method: m.cfg.Global.JoinParams.Method, HostUUID: m.uuid, NodeName: m.cfg.Global.NodeName, Role: m.role,
		Principals: principals(m), CAPins: m.cfg.Global.CAPin,
	}
	if local != nil {
		return authclient.Sign(p, local.SignHostKeys)
	}
	path := identityPath(m.cfg.Global.DataDir, m.role)
	saved, err := authclient.Load(path)
	if err == nil && saved.Covers(p.Principals) {
		return saved, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("saved identity is of no use, joining anew", "component", m.name, "error", err)
	}
	if p.Token, err = config.ReadToken(m.cfg.Global.JoinParams.TokenName); err != nil {
		return nil, err
	}
	if p.Token == "" {
		return nil, errors.New("no join token: set teleport.auth_token or teleport.join_params")
	}
	joinCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	identity, err := authclient.Join(joinCtx, target, p)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return identity, identity.Save(path)
}

// principals are the host names of a service's public addresses.
func principals(m member) []string {
	var addrs []string
	switch m.role {
	case types.RoleProxy:
		p := m.cfg.Proxy
		addrs = slices.Concat(p.PublicAddr, p.SSHPublicAddr, p.TunnelPublicAddr, p.KubePublicAddr)
		addrs = append(addrs, "kube-teleport-proxy-alpn.teleport.cluster.local", "kube.teleport.cluster.local")
		for _, addr := range slices.Concat(p.PublicAddr, p.KubePublicAddr) {
			host := hostOf(addr)
			addrs = append(addrs, "kube-teleport-proxy-alpn."+host, "kube."+host)
		}
	case types.RoleKube:
		addrs = m.cfg.Kube.PublicAddr
	case types.RoleNode:
		addrs = m.cfg.SSH.PublicAddr
	}
	addrs = append(addrs, m.cfg.Global.AdvertiseIP)
	var out []string
	for _, addr := range addrs {
		if host := hostOf(addr); host != "" && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
