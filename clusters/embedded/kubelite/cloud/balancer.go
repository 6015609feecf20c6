package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// provider is a cloud with load balancers and nothing else.
type provider struct{ balancer *balancer }

var _ cloudprovider.Interface = (*provider)(nil)

func (*provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool)                { return p.balancer, true }
func (*provider) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (*provider) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return nil, false }
func (*provider) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (*provider) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (*provider) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (*provider) ProviderName() string                                              { return "shakedown" }
func (*provider) HasClusterID() bool                                                { return true }

// balancer hands out addresses. What is taken stands in the Services' own status,
// so that it knows after a restart; given holds what the lister may not show yet.
type balancer struct {
	pool     netip.Prefix
	services corelisters.ServiceLister
	log      *slog.Logger

	mu    sync.Mutex
	given map[types.UID]netip.Addr
}

func newBalancer(pool netip.Prefix, services corelisters.ServiceLister, log *slog.Logger) *balancer {
	return &balancer{pool: pool, services: services, log: log, given: map[types.UID]netip.Addr{}}
}

var _ cloudprovider.LoadBalancer = (*balancer)(nil)

// GetLoadBalancer tells the address that the Service has.
func (b *balancer) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.held(service)
	if !ok {
		return nil, false, nil
	}
	return status(addr), true, nil
}

// GetLoadBalancerName is the name that clouds give by default.
func (b *balancer) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// EnsureLoadBalancer gives the Service an address, the same as long as it lives:
// the one that spec.loadBalancerIP asks for if that is in the range, or the one
// it has, or the lowest that is free.
func (b *balancer) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	if len(service.Spec.IPFamilies) > 0 && !slices.Contains(service.Spec.IPFamilies, v1.IPv4Protocol) {
		return nil, fmt.Errorf("load balancers have IPv4 addresses, the Service wants %v", service.Spec.IPFamilies)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	taken, err := b.taken(service.UID)
	if err != nil {
		return nil, err
	}
	addr, err := b.choose(service, taken)
	if err != nil {
		return nil, err
	}
	b.given[service.UID] = addr
	return status(addr), nil
}

func (b *balancer) choose(service *v1.Service, taken map[netip.Addr]string) (netip.Addr, error) {
	if text := service.Spec.LoadBalancerIP; text != "" {
		addr, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return addr, fmt.Errorf("spec.loadBalancerIP: %w", err)
		case taken[addr] != "":
			return addr, fmt.Errorf("spec.loadBalancerIP %s is taken by Service %s", addr, taken[addr])
		case b.usable(addr):
			return addr, nil
		}
		// The API has providers ignore the field where they cannot heed it.
		b.log.Warn("spec.loadBalancerIP is outside the range and ignored", "service", service.Namespace+"/"+service.Name, "ip", text, "range", b.pool)
	}
	if addr, ok := b.held(service); ok && taken[addr] == "" {
		return addr, nil
	}
	for addr := b.pool.Addr().Next(); b.usable(addr); addr = addr.Next() {
		if taken[addr] == "" {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is free in %s: %d are taken", b.pool, len(taken))
}

// held returns the Service's address: the one given, or that of its status.
func (b *balancer) held(service *v1.Service) (netip.Addr, bool) {
	if addr, ok := b.given[service.UID]; ok {
		return addr, true
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(ingress.IP); err == nil && b.usable(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// taken maps the addresses of all other Services to their names.
func (b *balancer) taken(except types.UID) (map[netip.Addr]string, error) {
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	taken := map[netip.Addr]string{}
	for uid, addr := range b.given {
		if uid != except {
			taken[addr] = string(uid)
		}
	}
	for _, service := range services {
		if service.UID == except {
			continue
		}
		if addr, ok := b.held(service); ok {
			taken[addr] = service.Namespace + "/" + service.Name
		}
	}
	return taken, nil
}

// usable tells whether the address can be given: the range's first and last
// cannot.
func (b *balancer) usable(addr netip.Addr) bool {
	return b.pool.Contains(addr) && addr != b.pool.Addr() && b.pool.Contains(addr.Next())
}

// UpdateLoadBalancer has nothing to do when nodes come and go: kube-proxy serves
// the address on each of them.
func (b *balancer) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	return nil
}

// EnsureLoadBalancerDeleted frees the address.
func (b *balancer) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.given, service.UID)
	return nil
}

func status(addr netip.Addr) *v1.LoadBalancerStatus {
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: addr.String()}}}
}
