package existing

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	k8scache "k8s.io/client-go/tools/cache"
)

// cache knows from a watch who has which address. What it knew last holds while the API server is away.
type cache struct {
	pods, services, slices k8scache.Indexer
	stop                   func()
}

// The indices of the cache.
const (
	byIP      = "ip"
	byService = "service"
)

// watch returns when everything that is there now is known. It goes on after ctx, until stop.
func watch(ctx context.Context, client kubernetes.Interface, log *slog.Logger) (*cache, error) {
	if err := mayList(ctx, client); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(lean))
	pods, services := factory.Core().V1().Pods().Informer(), factory.Core().V1().Services().Informer()
	endpoints := factory.Discovery().V1().EndpointSlices().Informer()
	for informer, index := range map[k8scache.SharedIndexInformer]k8scache.Indexers{
		pods: {byIP: podIPs}, services: {byIP: clusterIPs}, endpoints: {byService: serviceOf},
	} {
		if err := informer.AddIndexers(index); err != nil {
			return nil, err
		}
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *k8scache.Reflector, err error) {
			log.Debug("watch pods and Services", "err", err) // it tries again by itself
		})
		if err != nil {
			return nil, err
		}
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory.StartWithContext(on)
	c := &cache{pods: pods.GetIndexer(), services: services.GetIndexer(), slices: endpoints.GetIndexer()}
	c.stop = func() { cancel(); factory.Shutdown() }
	if !k8scache.WaitForCacheSync(ctx.Done(), pods.HasSynced, services.HasSynced, endpoints.HasSynced) {
		c.stop()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// mayList is nil if what is watched may be listed: a watch itself would only try for ever.
func mayList(ctx context.Context, client kubernetes.Interface) error {
	one := metav1.ListOptions{Limit: 1}
	for what, list := range map[string]func() error{
		"pods":           func() error { _, err := client.CoreV1().Pods("").List(ctx, one); return err },
		"services":       func() error { _, err := client.CoreV1().Services("").List(ctx, one); return err },
		"endpointslices": func() error { _, err := client.DiscoveryV1().EndpointSlices("").List(ctx, one); return err },
	} {
		err := list()
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("the context may not list and watch %s in all namespaces, which load needs to find its way: %w", what, err)
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", what, err)
		}
	}
	return nil
}

// lean leaves what finding an address needs: the cluster may be large, and is somebody else's.
func lean(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		m.SetAnnotations(nil)
	}
	if p, ok := o.(*corev1.Pod); ok {
		p.Spec = corev1.PodSpec{HostNetwork: p.Spec.HostNetwork}
		p.Status = corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs}
	}
	return o, nil
}

// podIPs are the addresses that are a pod's own; those of one that has ended may be another's already.
func podIPs(o any) ([]string, error) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil, nil
	}
	ips := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return addresses(ips), nil
}

func clusterIPs(o any) ([]string, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil, nil
	}
	return addresses(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...)), nil
}

// addresses are those of the texts that are one ("None" is not), each once.
func addresses(texts []string) []string {
	texts = slices.DeleteFunc(texts, func(ip string) bool { return net.ParseIP(ip) == nil })
	slices.Sort(texts)
	return slices.Compact(texts)
}

func serviceOf(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}, nil
}

func (c *cache) podAt(ip string) (*corev1.Pod, bool) {
	found, err := c.pods.ByIndex(byIP, ip)
	if err != nil || len(found) == 0 {
		return nil, false
	}
	p, ok := found[0].(*corev1.Pod)
	return p, ok
}

// serviceAt is the key, NAMESPACE/NAME, of the Service with the address.
func (c *cache) serviceAt(ip string) (string, bool) {
	keys, err := c.services.IndexKeys(byIP, ip)
	if err != nil || len(keys) == 0 {
		return "", false
	}
	return keys[0], true
}

// behind chooses one of the ready endpoints of a Service.
func (c *cache) behind(key string, port int) (endpoint, error) {
	found, ok, err := c.services.GetByKey(key)
	if err != nil || !ok {
		return endpoint{}, fmt.Errorf("service %s: %w", key, errUnknown)
	}
	name, ok := portName(found.(*corev1.Service), port)
	if !ok {
		return endpoint{}, fmt.Errorf("service %s has no port %d", key, port)
	}
	parts, err := c.slices.ByIndex(byService, key)
	if err != nil {
		return endpoint{}, err
	}
	var all []endpoint
	for _, p := range parts {
		all = append(all, readyIn(p.(*discoveryv1.EndpointSlice), name)...)
	}
	if len(all) == 0 {
		return endpoint{}, fmt.Errorf("service %s has no ready endpoint", key)
	}
	return oneOf(all), nil
}

func portName(s *corev1.Service, port int) (string, bool) {
	for _, p := range s.Spec.Ports {
		if int(p.Port) == port {
			return p.Name, true
		}
	}
	return "", false
}

func readyIn(slice *discoveryv1.EndpointSlice, port string) []endpoint {
	var out []endpoint
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name != nil && *p.Name != port {
			continue
		}
		for _, e := range slice.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && e.TargetRef != nil && e.TargetRef.Kind == "Pod" && len(e.Addresses) > 0 {
				out = append(out, endpoint{e.TargetRef.Namespace, e.TargetRef.Name, e.Addresses[0], int(*p.Port)})
			}
		}
	}
	return out
}
