package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"crypto/tls"

	"shakedown.dev/shakedown/teleport/local"
)

// TestAdministration is what tctl must do in an auth pod.
func TestAdministration(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1, Direct: true})
	t.Run("status names cluster and version", func(t *testing.T) {
		s, err := l.Tctl.Status(t.Context())
		if err != nil || s.Cluster != l.Name || s.Version == "" {
			t.Errorf("got %+v, %v", s, err)
		}
	})
	t.Run("nodes are listed with host, labels and how they are reached", func(t *testing.T) {
		nodes, err := l.Tctl.Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("got %v, %v", nodes, err)
		}
		for _, n := range nodes {
			if n.Labels["fleet"] != "local" || n.UUID == "" || n.Version == "" || n.Tunnel != (n.Host == "node-0") || n.Expires.Before(time.Now()) {
				t.Errorf("node %+v", n)
			}
			if n.Host == "direct" && n.Address != l.Direct {
				t.Errorf("the direct node is at %q, listens on %s", n.Address, l.Direct)
			}
		}
	})
	t.Run("an identity says whose it is, where and until when", func(t *testing.T) {
		if l.id.User != user || l.id.Cluster != l.Name || !l.id.Allows("root") || l.id.Allows("admin") {
			t.Errorf("got user %q, cluster %q, logins %v", l.id.User, l.id.Cluster, l.id.Logins)
		}
		if left := time.Until(l.id.Expires); left < 55*time.Minute || left > 65*time.Minute {
			t.Errorf("it was asked for one hour and has %s", left)
		}
	})
	t.Run("what was created may be created again", func(t *testing.T) {
		if _, err := l.Tctl.EnsureUsers(t.Context(), "load", 2, role); err != nil {
			t.Error(err)
		}
	})
	t.Run("a user that does not exist gets nothing", func(t *testing.T) {
		_, err := l.Tctl.Sign(t.Context(), "nobody", time.Hour, "")
		if err == nil || !strings.Contains(err.Error(), "is there such a user?") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a join token is given out", func(t *testing.T) {
		token, err := l.Tctl.Token(t.Context(), "node", time.Hour)
		if err != nil || len(token) < 16 || strings.ContainsAny(token, " \n") {
			t.Errorf("got a token of %d characters, %v", len(token), err)
		}
	})
}

// TestDiagnostics is what the diagnostic port must offer.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{Nodes: 1})
	for _, p := range []*local.Process{l.Auth, l.Proxy, l.Nodes[0]} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if code, body := get(t, p.Diag+path); code != http.StatusOK || body == "" {
				t.Errorf("%s%s: %d", p.Name, path, code)
			}
		}
	}
	metrics := map[*local.Process][]string{
		l.Auth:     {"process_resident_memory_bytes", "go_goroutines", "process_state"},
		l.Proxy:    {"teleport_reverse_tunnels_connected", "proxy_ssh_sessions_total", "process_state"},
		l.Nodes[0]: {"server_interactive_sessions_total", "process_state"},
	}
	for p, names := range metrics {
		_, body := get(t, p.Diag+"/metrics")
		for _, name := range names {
			if !strings.Contains(body, "\n"+name) {
				t.Errorf("%s has no metric %s", p.Name, name)
			}
		}
	}
}

// TestWebPing is what clients learn from the proxy's web port.
func TestWebPing(t *testing.T) {
	t.Parallel()
	l := start(t, local.Options{})
	code, body := get(t, "https://"+l.Web+"/webapi/ping")
	var ping struct {
		Proxy struct {
			TLSRouting bool `json:"tls_routing_enabled"`
		} `json:"proxy"`
		Version string `json:"server_version"`
	}
	if err := json.Unmarshal([]byte(body), &ping); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if !ping.Proxy.TLSRouting || ping.Version == "" {
		t.Errorf("got %s", body)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	// The web certificate is self-signed.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
