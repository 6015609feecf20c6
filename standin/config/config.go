package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// DefaultPath is where the image keeps its configuration.
const DefaultPath = "/etc/teleport.yaml"

// DefaultDataDir is where state goes when the file does not say.
const DefaultDataDir = "/var/lib/teleport"

// Load reads, checks and completes the file at path. strict makes a key that
// nobody knows an error, as 13.0.0-dev does; otherwise it is a warning.
func Load(path string, strict bool) (*Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, b, strict)
}

// Parse is Load for bytes in memory; path is for messages only.
func Parse(path string, b []byte, strict bool) (*Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: failed parsing the config file: %w", path, err)
	}
	c := &Config{Path: path}
	d := &decoder{path: path}
	if doc.Kind == yaml.DocumentNode {
		d.structure(resolve(doc.Content[0]), reflect.ValueOf(c).Elem(), "")
	}
	for _, unknown := range d.unknown {
		if strict {
			d.errs = append(d.errs, fmt.Errorf("%s", unknown))
		}
	}
	if !strict {
		d.warnings = append(d.warnings, d.unknown...)
	}
	c.Warnings = d.warnings
	d.check(c)
	if err := d.err(); err != nil {
		return nil, err
	}
	c.complete()
	return c, nil
}

// check looks at what no single value shows.
func (d *decoder) check(c *Config) {
	complain := func(format string, args ...any) {
		d.errs = append(d.errs, fmt.Errorf("%s: %s", d.path, fmt.Sprintf(format, args...)))
	}
	if !strings.Contains(" v1 v2 v3", " "+c.Version) {
		complain("version must be one of v1, v2, v3, not %q", c.Version)
	}
	g := c.Global
	ways := 0
	for _, given := range []bool{g.AuthServer != "", len(g.AuthServers) > 0, g.ProxyServer != ""} {
		if given {
			ways++
		}
	}
	switch {
	case c.Version == "v3" && len(g.AuthServers) > 0:
		complain("config v3: teleport.auth_servers is not allowed, use teleport.auth_server or teleport.proxy_server")
	case c.Version != "v3" && (g.AuthServer != "" || g.ProxyServer != ""):
		complain("teleport.auth_server and teleport.proxy_server need version: v3")
	case ways > 1:
		complain("only one of teleport.auth_server and teleport.proxy_server may be given")
	}
	if g.AuthToken != "" && g.JoinParams != (JoinParams{}) {
		complain("only one of teleport.auth_token and teleport.join_params may be given")
	}
	if g.Storage.Type == "etcd" && len(g.Storage.Peers) == 0 {
		complain("teleport.storage.peers must list at least one etcd address")
	}
	if c.Proxy.ACME.Enabled == On {
		complain("proxy_service.acme: the stand-in cannot fetch certificates, allowed is enabled: no")
	}
	for key, addr := range c.listenAddresses() {
		if _, _, err := net.SplitHostPort(withPort(addr, "1")); addr != "" && err != nil {
			complain("%s must be HOST:PORT, not %q", key, addr)
		}
	}
	for service, s := range map[string]OtherService{"app_service": c.Apps, "db_service": c.Databases, "windows_desktop_service": c.WindowsDesktop, "tracing_service": c.Tracing, "discovery_service": c.Discovery} {
		if s.Enabled == On {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s is not imitated by the stand-in", d.path, service))
		}
	}
}

func (c *Config) listenAddresses() map[string]string {
	return map[string]string{
		"auth_service.listen_addr":         c.Auth.ListenAddr,
		"proxy_service.listen_addr":        c.Proxy.ListenAddr,
		"proxy_service.web_listen_addr":    c.Proxy.WebAddr,
		"proxy_service.tunnel_listen_addr": c.Proxy.TunnelAddr,
		"proxy_service.kube_listen_addr":   c.Proxy.KubeAddr,
		"ssh_service.listen_addr":          c.SSH.ListenAddr,
		"kubernetes_service.listen_addr":   c.Kube.ListenAddr,
		"teleport.diag_addr":               c.Global.DiagAddr,
	}
}

// complete fills what the file left open with the real program's defaults.
func (c *Config) complete() {
	g := &c.Global
	g.DataDir = cmp.Or(g.DataDir, DefaultDataDir)
	if g.NodeName == "" {
		g.NodeName, _ = os.Hostname()
		g.NodeName = cmp.Or(g.NodeName, "localhost")
	}
	if g.Log.Output == "" && g.Log.Severity == "" {
		g.Log = g.Logger
	}
	g.Limits.MaxConnections = cmp.Or(g.Limits.MaxConnections, 15000)
	g.Storage.Type = cmp.Or(g.Storage.Type, "dir")
	g.Storage.Path = cmp.Or(g.Storage.Path, filepath.Join(g.DataDir, "backend"))
	g.Storage.Prefix = cmp.Or(g.Storage.Prefix, "/teleport/")
	if g.AuthToken != "" {
		g.JoinParams = JoinParams{Method: "token", TokenName: g.AuthToken}
	}
	if len(g.AuthServers) > 0 {
		c.SetAuthServers(g.AuthServers)
	}
	g.JoinParams.Method = cmp.Or(g.JoinParams.Method, "token")
	c.completeAuth()
	c.completeProxy()
	c.SSH.ListenAddr = withPort(cmp.Or(c.SSH.ListenAddr, "0.0.0.0:3022"), "3022")
	if c.Kube.ListenAddr != "" {
		c.Kube.ListenAddr = withPort(c.Kube.ListenAddr, "3026")
	}
}

func (c *Config) completeAuth() {
	a := &c.Auth
	a.ListenAddr = withPort(cmp.Or(a.ListenAddr, "0.0.0.0:3025"), "3025")
	a.ClusterName = cmp.Or(a.ClusterName, c.Global.NodeName)
	a.SessionRecording = cmp.Or(a.SessionRecording, "node")
	a.ProxyListenerMode = cmp.Or(a.ProxyListenerMode, "separate")
	a.RoutingStrategy = cmp.Or(a.RoutingStrategy, "unambiguous_match")
	a.Authentication.Type = cmp.Or(a.Authentication.Type, "local")
	a.Authentication.SecondFactor = cmp.Or(a.Authentication.SecondFactor, "otp")
}

func (c *Config) completeProxy() {
	p := &c.Proxy
	legacy := c.Version == "" || c.Version == "v1"
	if legacy {
		p.ListenAddr = cmp.Or(p.ListenAddr, "0.0.0.0:3023")
		p.TunnelAddr = cmp.Or(p.TunnelAddr, "0.0.0.0:3024")
	}
	p.WebAddr = withPort(cmp.Or(p.WebAddr, "0.0.0.0:3080"), "3080")
	p.ListenAddr = withPort(p.ListenAddr, "3023")
	p.TunnelAddr = withPort(p.TunnelAddr, "3024")
	if p.KubeAddr == "" && p.Kubernetes.Enabled == On {
		p.KubeAddr = cmp.Or(p.Kubernetes.ListenAddr, "0.0.0.0:3026")
		p.KubePublicAddr = p.Kubernetes.PublicAddr
	}
	p.KubeAddr = withPort(p.KubeAddr, "3026")
	if p.CertFile != "" {
		p.KeyPairs = append(p.KeyPairs, KeyPair{KeyFile: p.KeyFile, CertFile: p.CertFile})
	}
}

// SetAuthServers says where the auth is. Up to v2 a proxy's web address may stand
// there too; the real program finds out by trying, here ports 443 and 3080 tell.
func (c *Config) SetAuthServers(addrs []string) {
	g := &c.Global
	g.AuthServers, g.AuthServer, g.ProxyServer = nil, "", ""
	for _, addr := range addrs {
		if _, port, _ := net.SplitHostPort(addr); port == "443" || port == "3080" {
			g.ProxyServer = addr
			return
		}
		g.AuthServers = append(g.AuthServers, withPort(addr, "3025"))
	}
}

func withPort(addr, port string) string {
	if addr == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(addr); err != nil && !strings.Contains(addr, ":") {
		return net.JoinHostPort(addr, port)
	}
	return addr
}

// AuthEnabled, ProxyEnabled, SSHEnabled and KubeEnabled say which services run:
// all but Kubernetes are on unless they are switched off.
func (c *Config) AuthEnabled() bool  { return c.Auth.Enabled.Or(true) }
func (c *Config) ProxyEnabled() bool { return c.Proxy.Enabled.Or(true) }
func (c *Config) SSHEnabled() bool   { return c.SSH.Enabled.Or(true) }
func (c *Config) KubeEnabled() bool  { return c.Kube.Enabled.Or(false) }

// AuthAddresses are where the auth is reached directly; empty when the way is
// through a proxy.
func (c *Config) AuthAddresses() []string {
	switch {
	case c.Global.ProxyServer != "":
		return nil
	case c.Global.AuthServer != "":
		return []string{withPort(c.Global.AuthServer, "3025")}
	case len(c.Global.AuthServers) > 0:
		return c.Global.AuthServers
	case c.AuthEnabled():
		_, port, _ := net.SplitHostPort(c.Auth.ListenAddr)
		return []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return []string{"127.0.0.1:3025"}
}
