package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const authOfAChart = `version: v3
kubernetes_service:
  enabled: true
  listen_addr: 0.0.0.0:3026
  public_addr: "teleport-auth.teleport.svc.cluster.local:3026"
  kube_cluster_name: teleport.teleport.svc.cluster.local
proxy_service: {enabled: false}
ssh_service: {enabled: false}
auth_service:
  enabled: true
  cluster_name: teleport.teleport.svc.cluster.local
  authentication:
    type: "local"
    local_auth: true
    second_factor: "off"
  session_recording: node-sync
  proxy_listener_mode: multiplex
  tokens: ["node:agenttoken123"]
teleport:
  storage: {type: etcd, peers: ["http://etcd:2379"], prefix: /teleport/}
  log:
    severity: INFO
    output: stderr
    format: {output: text, extra_fields: ["timestamp", "level"]}
`

const proxyOfAChart = `version: v3
teleport:
  join_params: {method: kubernetes, token_name: "teleport-proxy"}
  auth_server: "teleport-auth.teleport.svc.cluster.local:3025"
ssh_service: {enabled: false}
auth_service: {enabled: false}
proxy_service:
  enabled: true
  public_addr: 'teleport.teleport.svc.cluster.local:443'
  listen_addr: 0.0.0.0:3023
  tunnel_listen_addr: 0.0.0.0:3024
  kube_listen_addr: 0.0.0.0:3026
  https_keypairs:
  - key_file: /etc/teleport-tls/tls.key
    cert_file: /etc/teleport-tls/tls.crt
  https_keypairs_reload_interval: 12h
`

func TestWhatChartsRender(t *testing.T) {
	auth, err := Parse("auth.yaml", []byte(authOfAChart), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(auth.Warnings) > 0 {
		t.Errorf("warnings: %v", auth.Warnings)
	}
	got := []any{auth.AuthEnabled(), auth.ProxyEnabled(), auth.SSHEnabled(), auth.KubeEnabled(), auth.Auth.SessionRecording, auth.Auth.ProxyListenerMode, auth.Auth.Authentication.SecondFactor, auth.Auth.Tokens[0].Token, auth.Global.Storage.Peers[0], auth.Kube.PublicAddr[0], auth.Auth.ListenAddr}
	want := []any{true, false, false, true, "node-sync", "multiplex", "off", "agenttoken123", "http://etcd:2379", "teleport-auth.teleport.svc.cluster.local:3026", "0.0.0.0:3025"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	proxy, err := Parse("proxy.yaml", []byte(proxyOfAChart), true)
	if err != nil {
		t.Fatal(err)
	}
	got = []any{proxy.Proxy.WebAddr, proxy.Proxy.ListenAddr, proxy.Proxy.KubeAddr, proxy.Proxy.KeyPairs[0].CertFile, proxy.Proxy.KeyPairsReload, proxy.Global.JoinParams.Method, proxy.AuthAddresses()[0], proxy.Global.Limits.MaxConnections}
	want = []any{"0.0.0.0:3080", "0.0.0.0:3023", "0.0.0.0:3026", "/etc/teleport-tls/tls.crt", 12 * time.Hour, "kubernetes", "teleport-auth.teleport.svc.cluster.local:3025", int64(15000)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultsOfOldConfigurations(t *testing.T) {
	c, err := Parse("f", []byte("teleport: {auth_servers: [a:3025]}\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	if !c.AuthEnabled() || !c.ProxyEnabled() || !c.SSHEnabled() || c.KubeEnabled() {
		t.Error("all but Kubernetes are on unless switched off")
	}
	if c.Proxy.ListenAddr != "0.0.0.0:3023" || c.Proxy.TunnelAddr != "0.0.0.0:3024" || c.Auth.ProxyListenerMode != "separate" || c.Auth.SessionRecording != "node" {
		t.Errorf("got %+v", c.Proxy)
	}
	if v3, _ := Parse("f", []byte("version: v3\n"), true); v3.Proxy.ListenAddr != "" {
		t.Error("from v2 on the SSH port is off unless it is given")
	}
}

func TestAProxyAmongTheAuthServers(t *testing.T) {
	c, err := Parse("f", []byte("teleport: {auth_servers: [\"p.example.com:443\"]}\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	if c.Global.ProxyServer != "p.example.com:443" || c.AuthAddresses() != nil {
		t.Errorf("proxy %q, auths %v", c.Global.ProxyServer, c.AuthAddresses())
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, row := range []struct{ name, yaml, want string }{
		{"an unknown key names its line and what is allowed", "version: v3\nauth_service:\n  cheese: 1\n", "f:3: unknown key auth_service.cheese, allowed here: authentication, "},
		{"a switch must be one", "auth_service: {enabled: maybe}", "f:1: auth_service.enabled must be one of yes, no, true, false, on, off, not \"maybe\""},
		{"a mode must be one of the list", "auth_service:\n  session_recording: nodes\n", "f:2: auth_service.session_recording must be one of node, node-sync, proxy, proxy-sync, off, not \"nodes\""},
		{"a number must be one", "teleport: {connection_limits: {max_connections: many}}", "teleport.connection_limits.max_connections must be a whole number, not \"many\""},
		{"a duration needs a unit", "auth_service: {client_idle_timeout: soon}", "must be a duration such as 30s, 5m or 1h"},
		{"a list must be one", "proxy_service: {https_keypairs: x}", "proxy_service.https_keypairs must be a list, not the text \"x\""},
		{"a section must be a mapping", "proxy_service: on", "proxy_service must be a mapping, not the text \"on\""},
		{"a key may not come twice", "teleport: {nodename: a, nodename: b}", "teleport.nodename is given twice, first in line 1"},
		{"a static token needs roles", "auth_service: {tokens: [justatoken]}", "auth_service.tokens[0]: invalid static token, allowed is role,role:token"},
		{"a static token's roles must be known", "auth_service: {tokens: [\"king:t\"]}", "invalid role"},
		{"a version must be known", "version: v9", "version must be one of v1, v2, v3, not \"v9\""},
		{"auth_servers went away with v3", "version: v3\nteleport: {auth_servers: [a]}", "teleport.auth_servers is not allowed"},
		{"auth_server came with v3", "version: v2\nteleport: {auth_server: a}", "need version: v3"},
		{"one way to the auth is enough", "version: v3\nteleport: {auth_server: a, proxy_server: b}", "only one of teleport.auth_server and teleport.proxy_server"},
		{"one way to join is enough", "teleport: {auth_token: a, join_params: {method: token, token_name: b}}", "only one of teleport.auth_token and teleport.join_params"},
		{"a join method must be imitated", "teleport: {join_params: {method: iam}}", "teleport.join_params.method must be one of token, kubernetes"},
		{"etcd needs an address", "teleport: {storage: {type: etcd}}", "teleport.storage.peers must list at least one"},
		{"a backend must be imitated", "teleport: {storage: {type: dynamodb}}", "teleport.storage.type must be one of dir, sqlite, lite, bolt, etcd"},
		{"certificates are not fetched", "proxy_service: {acme: {enabled: yes}}", "proxy_service.acme"},
		{"an address needs a port", "ssh_service: {listen_addr: \"a:b:c\"}", "ssh_service.listen_addr must be HOST:PORT"},
		{"broken YAML names its line", "teleport:\n  a: [", "f: failed parsing the config file: yaml: line"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := Parse("f", []byte(row.yaml), true)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
		})
	}
}

func TestEveryProblemIsToldAtOnce(t *testing.T) {
	_, err := Parse("f", []byte("version: v9\nauth_service: {enabled: maybe}\nteleport: {nodenam: x}\n"), true)
	for _, want := range []string{"version must", "auth_service.enabled must", "unknown key teleport.nodenam"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among\n%v", want, err)
		}
	}
}

func TestUnknownKeysAreWarningsWhereTheListIsNotKnown(t *testing.T) {
	c, err := Parse("f", []byte("version: v3\nteleport: {relay: x}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "f:2: unknown key teleport.relay") {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestKeysWithoutEffectAreWarnings(t *testing.T) {
	c, err := Parse("f", []byte("proxy_service: {mysql_listen_addr: x}\ndb_service: {enabled: yes, anything: 1}\nteleport: {storage: {region: x}}\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"f:1: proxy_service.mysql_listen_addr has no effect", "db_service is not imitated", "teleport.storage.region has no effect"} {
		if !strings.Contains(strings.Join(c.Warnings, "\n"), want) {
			t.Errorf("%q is not among %v", want, c.Warnings)
		}
	}
}

func TestTokenFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{path: "secret", "plain": "plain"} {
		if got, err := ReadToken(value); err != nil || got != want {
			t.Errorf("%s: got %q and %v, want %q", value, got, err, want)
		}
	}
	if _, err := ReadToken(path + "x"); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(authOfAChart)
	f.Add(proxyOfAChart)
	f.Add("teleport: *a")
	f.Fuzz(func(t *testing.T, yaml string) { _, _ = Parse("f", []byte(yaml), true) })
}
