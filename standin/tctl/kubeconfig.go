package tctl

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/gravitational/teleport/api/types"
	"go.yaml.in/yaml/v3"
)

// kubeconfig writes the cluster, user and context into the file at o.out, beside
// what is there already.
func (t *tool) kubeconfig(ctx context.Context, o signOptions, m *material) ([]file, error) {
	serverName, err := t.kubeServerName(ctx, o.proxy)
	if err != nil {
		return nil, err
	}
	tree, err := loadKubeconfig(o)
	if err != nil {
		return nil, err
	}
	context := m.cluster
	if o.kubeCluster != "" {
		context = m.cluster + "-" + o.kubeCluster
	}
	cluster := map[string]any{"server": o.proxy, "certificate-authority-data": b64(m.authorities.HostTLSPEM)}
	if serverName != "" {
		cluster["tls-server-name"] = serverName
	}
	put(tree, "clusters", m.cluster, "cluster", cluster)
	put(tree, "users", context, "user", map[string]any{"client-certificate-data": b64(m.tls), "client-key-data": b64(m.key)})
	put(tree, "contexts", context, "context", map[string]any{"cluster": m.cluster, "user": context})
	tree["current-context"] = context
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return []file{{o.out, buf.Bytes()}}, nil
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func loadKubeconfig(o signOptions) (map[string]any, error) {
	tree := map[string]any{"apiVersion": "v1", "kind": "Config", "preferences": map[string]any{}}
	if o.overwrite || o.tar {
		return tree, nil
	}
	b, err := os.ReadFile(o.out)
	if os.IsNotExist(err) {
		return tree, nil
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("%s: not a kubeconfig: %w", o.out, err)
	}
	return tree, nil
}

// put replaces or appends the entry called name of a kubeconfig's list.
func put(tree map[string]any, list, name, key string, value map[string]any) {
	entry := map[string]any{"name": name, key: value}
	items, _ := tree[list].([]any)
	for i, item := range items {
		if old, ok := item.(map[string]any); ok && old["name"] == name {
			items[i] = entry
			return
		}
	}
	tree[list] = append(items, entry)
}

// kubeServerName is the name to ask for in TLS when everything goes over the
// proxy's web port; empty in separate mode.
func (t *tool) kubeServerName(ctx context.Context, proxy string) (string, error) {
	cfg, err := t.remote.ClusterConfig(ctx)
	if err != nil {
		return "", err
	}
	if cfg.ListenerMode != "multiplex" {
		return "", nil
	}
	u, err := url.Parse(proxy)
	if err != nil {
		return "", fmt.Errorf("specified --proxy URL is invalid: %w", err)
	}
	prefix := "kube-teleport-proxy-alpn."
	if ping := cfg.AuthVersion; len(ping) > 3 && ping[:3] == "13." {
		prefix = "kube." // as 13.0.0-dev still writes
	}
	host := u.Hostname()
	if host == "" || net.ParseIP(host) != nil {
		return prefix + "teleport.cluster.local", nil
	}
	return prefix + host, nil
}

// completeKube finds out what --proxy and --kube-cluster-name leave open.
func (t *tool) completeKube(ctx context.Context, o *signOptions) error {
	names, err := t.kubeClusters(ctx)
	if err != nil {
		return err
	}
	cluster := t.remote.Identity().Cluster
	switch {
	case o.kubeCluster != "" && !slices.Contains(names, o.kubeCluster):
		return fmt.Errorf("kubernetes cluster %q is not registered in this teleport cluster; you can list registered kubernetes clusters using 'tsh kube ls'", o.kubeCluster)
	case o.kubeCluster == "" && slices.Contains(names, cluster):
		o.kubeCluster = cluster
	case o.kubeCluster == "" && len(names) > 0:
		o.kubeCluster = names[0]
	}
	return t.completeProxy(ctx, o)
}

func (t *tool) completeProxy(ctx context.Context, o *signOptions) error {
	if o.proxy == "" {
		addr := t.proxyAddr(ctx)
		if strings.HasPrefix(addr, "<") {
			return fmt.Errorf("couldn't find registered public proxies, specify --proxy when using --format=%q", o.format)
		}
		if cfg, err := t.remote.ClusterConfig(ctx); err == nil && cfg.ListenerMode != "multiplex" {
			host, _, _ := net.SplitHostPort(addr)
			addr = net.JoinHostPort(host, "3026")
		}
		o.proxy = "https://" + addr
	}
	if scheme, _, ok := strings.Cut(o.proxy, "://"); !ok {
		o.proxy = "https://" + o.proxy
	} else if scheme != "https" && scheme != "http" {
		return errors.New("expected --proxy URL with http or https scheme")
	}
	return nil
}

func (t *tool) kubeClusters(ctx context.Context) ([]string, error) {
	servers, err := t.remote.Servers(ctx, types.KindKubeService)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range servers {
		for _, k := range s.GetKubernetesClusters() {
			if !slices.Contains(names, k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
