// Package cloud does for the embedded cluster what a cloud does for others: it
// gives Services of type LoadBalancer an address, and claims a volume.
//
// Both are the usual controllers, of k8s.io/cloud-provider and of
// sig-storage-lib-external-provisioner, over the few lines that differ from cloud
// to cloud. An address is all that a load balancer is here: kube-proxy serves it
// on every node as it serves any ingress address.
package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// DefaultLoadBalancerRange is where the addresses of load balancers come from.
const DefaultLoadBalancerRange = "10.97.0.0/16"

// Options are what Run cannot know.
type Options struct {
	// ClusterName is the cluster's name, for messages.
	ClusterName string
	// Dir holds the volumes: Dir/NODE/VOLUME. Every node must see it under the
	// same path.
	Dir string
	// LoadBalancerRange is an IPv4 range that nothing else uses; the zero value
	// means DefaultLoadBalancerRange.
	LoadBalancerRange netip.Prefix
	// Log is for what happens; nil discards.
	Log *slog.Logger
}

func (o Options) complete() (Options, error) {
	if o.LoadBalancerRange == (netip.Prefix{}) {
		o.LoadBalancerRange = netip.MustParsePrefix(DefaultLoadBalancerRange)
	}
	o.LoadBalancerRange = o.LoadBalancerRange.Masked()
	if !o.LoadBalancerRange.Addr().Is4() || o.LoadBalancerRange.Bits() > 30 {
		return o, fmt.Errorf("load balancer range %s: want an IPv4 range of at least four addresses", o.LoadBalancerRange)
	}
	if !filepath.IsAbs(o.Dir) {
		return o, fmt.Errorf("volume directory %q: want an absolute path", o.Dir)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Run works until ctx ends, and then returns nil. It waits for an API server that
// is not there yet.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	return run(ctx, client, options)
}

func run(ctx context.Context, client kubernetes.Interface, options Options) error {
	options, err := options.complete()
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(options.Log.Handler()))
	if err := ensureStorageClass(ctx, client, options.Log); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("cloud: %w", err)
	}
	services, start, err := newServiceController(client, options)
	if err != nil {
		return fmt.Errorf("cloud: load balancers: %w", err)
	}
	volumes := newVolumeController(ctx, client, options)
	start(ctx.Done())
	var wg sync.WaitGroup
	wg.Go(func() { services.Run(ctx, 2, controllersmetrics.NewControllerManagerMetrics("shakedown-cloud")) })
	wg.Go(func() { volumes.Run(ctx) })
	wg.Wait()
	return nil
}

// newServiceController returns the controller and what starts its informers.
func newServiceController(client kubernetes.Interface, options Options) (*servicecontroller.Controller, func(<-chan struct{}), error) {
	const resync = 10 * time.Minute
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(slim))
	services := factory.Core().V1().Services()
	provider := &provider{newBalancer(options.LoadBalancerRange, services.Lister(), options.Log)}
	nodes, err := newEveryNode()
	if err != nil {
		return nil, nil, err
	}
	controller, err := servicecontroller.New(provider, client, services, nodes, options.ClusterName, utilfeature.DefaultFeatureGate)
	return controller, factory.Start, err
}

// slim drops what no controller here reads and what makes up most of an object.
func slim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}
