// Package existing works on a cluster that somebody else made, by its kubeconfig. It makes no cluster and takes none
// down. Each connection of the load is a port-forward of its own through the API server, which costs that server work
// and lives no longer than it does; where pods are reached from here (a VPN, a flat network), load may go directly.
package existing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// ProviderName is what this provider is called on the command line and in reports.
const ProviderName = "existing"

// Provider is clusters.Provider for one context of a kubeconfig. A proxy-url in it (HTTP or SOCKS5) is heeded.
type Provider struct {
	Kubeconfig string // path; empty: $KUBECONFIG, or ~/.kube/config
	Context    string // never the current one by itself: it must be named
	// Direct connects to pods from here, by their own addresses, as from within a VPN or a flat network. Without it each
	// connection is a port-forward of its own through the API server.
	Direct bool
	// Gateway is an image of this program: a pod of it connects to pods, and all connections share one port-forward.
	Gateway string
	Log     *slog.Logger

	mu sync.Mutex
	up []*Cluster // whose watches go on
}

var _ clusters.Provider = (*Provider)(nil)

// Up reaches the cluster and watches who has which address in it, until Down. Images are not ours to bring: its nodes
// pull their own.
func (p *Provider) Up(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	if len(spec.Images) > 0 {
		return nil, exit.With(exit.Usage, fmt.Errorf("image %s: the nodes of an existing cluster pull their images themselves; push it to a registry that they reach, and name that in the chart's values", spec.Images[0].Name))
	}
	if p.Context == "" {
		return nil, exit.With(exit.Usage, errors.New("no context is named"))
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: p.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("kubeconfig: %w", err))
	}
	if _, ok := raw.Contexts[p.Context]; !ok {
		there := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
		return nil, exit.With(exit.Usage, fmt.Errorf("kubeconfig: no context %q; there are: %s", p.Context, there))
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("kubeconfig, context %s: %w", p.Context, err))
	}
	c := &Cluster{context: p.Context, config: config, file: loader, way: forwarded, direct: new(net.Dialer).DialContext}
	switch {
	case p.Direct:
		c.way = direct
	case p.Gateway != "":
		c.way, c.gateway.image = inGateway, p.Gateway
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := c.answers(ctx); err != nil {
		return nil, err
	}
	if c.cache, err = watch(ctx, c.client, p.log()); err != nil {
		return nil, &clusters.NameError{Name: c.context, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = append(p.up, c)
	return c, nil
}

func (p *Provider) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log
}

// answers is nil if the API server does.
func (c *Cluster) answers(ctx context.Context) error {
	var version version.Info
	said, err := c.client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(said, &version)
	}
	if err != nil {
		return exit.Hint(&clusters.NameError{Name: c.context, Err: fmt.Errorf("the API server at %s does not answer: %w", c.config.Host, err)},
			"try: kubectl --context "+c.context+" version; a private API server may need proxy-url in the kubeconfig")
	}
	c.version = version.GitVersion
	return nil
}

// Down ends the watches, and nothing else: the cluster is not ours. Who holds a Cluster connects with it no more.
func (p *Provider) Down(context.Context, string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.up {
		c.cache.stop()
		c.mu.Lock()
		if c.gateway.client != nil {
			_ = c.gateway.client.Close()
		}
		c.mu.Unlock()
	}
	p.up = nil
	return nil
}

// List is empty: none is ours.
func (p *Provider) List(context.Context) ([]clusters.Cluster, error) { return nil, nil }

// Cluster is a cluster that somebody else made.
type Cluster struct {
	context string
	version string
	config  *rest.Config
	file    clientcmd.ClientConfig
	client  kubernetes.Interface
	cache   *cache
	way     string
	direct  func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	gateway behind
}

var (
	_ clusters.Cluster = (*Cluster)(nil)
	_ clusters.Reacher = (*Cluster)(nil)
)

// Name is the name of its context.
func (c *Cluster) Name() string { return c.context }

// RESTConfig has the rights that the context has.
func (c *Cluster) RESTConfig(context.Context) (*rest.Config, error) {
	return rest.CopyConfig(c.config), nil
}

// Kubeconfig is the part of the file that the context needs.
func (c *Cluster) Kubeconfig(context.Context) ([]byte, error) {
	raw, err := c.file.RawConfig()
	if err != nil {
		return nil, err
	}
	raw.CurrentContext = c.context
	if err := api.MinifyConfig(&raw); err != nil {
		return nil, err
	}
	return clientcmd.Write(raw)
}
