// Package kind makes clusters with kind (Kubernetes in Docker), by its own library, behind clusters.Provider.
//
// Beside the nodes of a cluster stands one more container, its gateway: it carries the labels by which the cluster is
// known to be ours from any process, before its first node exists and until nothing is left; and it is where load
// comes from. It dials in the cluster's network and hands the sockets over, so that pods and Services are reached by
// their own addresses, no byte passes through it, and the machine's routing is never touched.
package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// ProviderName is what this provider is called on the command line and in reports.
const ProviderName = "kind"

// readyTimeout is how long nodes may take to be Ready.
const readyTimeout = 5 * time.Minute

// Provider is clusters.Provider with Docker. The zero value is ready to use.
type Provider struct {
	NodeImage string // an image of Docker's, a version (v1.36.3) of kindest/node, or an archive; empty: kind's default
	Config    string // path of a file of kind's own configuration, which this provider completes; empty: none
	LogsDir   string // where kind's logs go when a cluster fails to come up or goes away; empty: nowhere
	Program   string // this program, for the gateway; empty: the running one
	Progress  func(clusters.Step)
	Log       *slog.Logger
}

var _ clusters.Provider = (*Provider)(nil)

func (p *Provider) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log
}

func (p *Provider) kind() *cluster.Provider {
	return cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(&logger{to: p.Progress, log: p.log()}))
}

// Up makes the cluster, gives its nodes the images, all at once, and opens its gateway.
func (p *Provider) Up(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	if err := p.check(ctx, spec); err != nil {
		return nil, err
	}
	have, err := clusters.Find(ctx, p, spec.Name)
	if err == nil {
		return p.reuse(ctx, have.(*Cluster), spec)
	}
	if !errors.Is(err, clusters.ErrNotFound) {
		return nil, err
	}
	if err := notForeign(p.kind(), spec.Name); err != nil {
		return nil, err
	}
	config, err := p.config(spec)
	if err != nil {
		return nil, err
	}
	image, err := p.nodeImage(ctx, config)
	if err != nil {
		return nil, err
	}
	// From here on the name is ours, and whatever bears it is ours to take away. Before, it may be another's.
	g, err := p.createGateway(ctx, spec, image)
	if err != nil {
		return nil, err
	}
	c := &Cluster{name: spec.Name, gateway: g, provider: p}
	if err = p.create(ctx, c, config); err == nil {
		return c, nil
	}
	p.export(spec.Name)
	// What was asked for may be cut short, its removal may not.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	quiesce(clean)
	return nil, errors.Join(explain(err), p.remove(clean, spec.Name))
}

// reuse takes a cluster that is up, if it is whole and of the shape that is wanted, and gives it the images.
func (p *Provider) reuse(ctx context.Context, c *Cluster, spec clusters.Spec) (clusters.Cluster, error) {
	differs, err := p.otherNodes(ctx, c.gateway)
	if err != nil {
		return nil, err
	}
	if err := sameShape(c.gateway.spec, spec, differs...); err != nil {
		return nil, err
	}
	nodes, err := c.inspectNodes(ctx)
	if err != nil {
		return nil, err
	}
	down := slices.DeleteFunc(slices.Clone(nodes), func(n containerState) bool { return n.State.Running && !n.State.Paused })
	if len(nodes) <= spec.Nodes || len(down) > 0 {
		return nil, exit.Hint(&clusters.NameError{Name: c.name, Err: fmt.Errorf("it is there but not whole: %d of %d nodes run", len(nodes)-len(down), spec.Nodes+1)},
			"shakedown cluster down --cluster kind --name "+c.name)
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if err := c.allReady(ctx); err != nil {
		return nil, err
	}
	return c, c.load(ctx, spec.Images)
}

func (p *Provider) check(ctx context.Context, spec clusters.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.HollowNodes > 0 {
		return exit.Hint(fmt.Errorf("%w: kind has no hollow nodes", clusters.ErrUnsupported), "the embedded cluster has them: --cluster embedded")
	}
	return engine(ctx)
}

// notForeign keeps away from a cluster of the same name that somebody else made.
func notForeign(k *cluster.Provider, name string) error {
	names, err := k.List()
	if err != nil {
		return explain(err)
	}
	if slices.Contains(names, name) {
		return exit.Hint(&clusters.NameError{Name: name, Err: errors.New("a kind cluster of this name is there that Shakedown did not make")},
			"choose another --name, or: kind delete cluster --name "+name)
	}
	return nil
}

// create makes what the gateway stands for.
func (p *Provider) create(ctx context.Context, c *Cluster, config *v1alpha4.Cluster) error {
	// kind always writes a kubeconfig, and the user's own is none of ours to change. This one goes with the folder.
	scratch := filepath.Join(c.gateway.folder, "kubeconfig")
	options := []cluster.CreateOption{
		cluster.CreateWithV1Alpha4Config(config), cluster.CreateWithKubeconfigPath(scratch),
		cluster.CreateWithWaitForReady(readyTimeout), cluster.CreateWithRetain(true),
	}
	if err := p.interruptible(ctx, c.name, func() error { return p.kind().Create(c.name, options...) }); err != nil {
		return err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.allReady(ctx); err != nil {
		return err
	}
	return c.load(ctx, c.gateway.spec.Images)
}

// interruptible does what cannot be cancelled: when ctx ends, the cluster's containers are taken away until it fails.
func (p *Provider) interruptible(ctx context.Context, name string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		}
	}
	for {
		_ = p.kind().Delete(name, os.DevNull)
		select {
		case <-done:
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// downTimeout bounds the removal of a cluster: kind itself takes seconds.
const downTimeout = 2 * time.Minute

// Down removes the cluster, if it is one of ours, with all that was made for it.
func (p *Provider) Down(ctx context.Context, name string) error {
	if err := engine(ctx); err != nil {
		return err
	}
	if _, err := clusters.Find(ctx, p, name); err != nil {
		if errors.Is(err, clusters.ErrNotFound) {
			return nil
		}
		return err
	}
	p.export(name)
	return p.remove(ctx, name)
}

// remove ends the nodes first and the gateway last: as long as something is left, the cluster is found again.
func (p *Provider) remove(ctx context.Context, name string) error {
	g, err := findGateway(ctx, name)
	if err != nil && !errors.Is(err, clusters.ErrNotFound) {
		return err
	}
	if err := p.kind().Delete(name, os.DevNull); err != nil {
		return explain(err)
	}
	if g == nil {
		return nil
	}
	return g.remove(ctx)
}

// export saves kind's own logs. It is for a person to read: that it fails is not the run's failure.
func (p *Provider) export(name string) {
	if p.LogsDir == "" {
		return
	}
	if err := p.kind().CollectLogs(name, p.LogsDir); err != nil {
		p.log().Warn("export kind's logs", "cluster", name, "error", oneLine(err.Error()))
	}
}

// List finds the clusters by the labels of their gateways, also those that are half made.
func (p *Provider) List(ctx context.Context) ([]clusters.Cluster, error) {
	if err := engine(ctx); err != nil {
		return nil, err
	}
	gateways, err := listGateways(ctx)
	if err != nil {
		return nil, err
	}
	var out []clusters.Cluster
	for _, name := range slices.Sorted(maps.Keys(gateways)) {
		out = append(out, &Cluster{name: name, gateway: gateways[name], provider: p})
	}
	return out, nil
}
