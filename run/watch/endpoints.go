package watch

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
)

// endpoints is what stands behind each Service, slice by slice.
type endpoints struct {
	slices map[string]map[string]*discoveryv1.EndpointSlice // Service, slice
	told   map[string]history.Endpoints
}

func newEndpoints() endpoints {
	return endpoints{slices: map[string]map[string]*discoveryv1.EndpointSlice{}, told: map[string]history.Endpoints{}}
}

// serviceOf is the Service and component that a slice belongs to. Headless Services are left out: users come
// through those with an address, and only what stands behind these is capacity.
func serviceOf(s *discoveryv1.EndpointSlice) (service, component string, ok bool) {
	service, component = s.Labels[discoveryv1.LabelServiceName], s.Labels[componentLabel]
	_, headless := s.Labels[corev1.IsHeadlessService]
	return service, component, service != "" && component != "" && !headless
}

func (w *Watcher) sliceSeen(at time.Duration, s *discoveryv1.EndpointSlice) {
	service, component, ok := serviceOf(s)
	if !ok {
		return
	}
	of := w.endpoints.slices[service]
	if of == nil {
		of = map[string]*discoveryv1.EndpointSlice{}
		w.endpoints.slices[service] = of
	}
	of[s.Name] = s
	w.tellEndpoints(at, service, component)
}

func (w *Watcher) sliceGone(at time.Duration, s *discoveryv1.EndpointSlice) {
	if service, component, ok := serviceOf(s); ok {
		delete(w.endpoints.slices[service], s.Name)
		w.tellEndpoints(at, service, component)
	}
}

// tellEndpoints records the whole of a Service if it changed.
func (w *Watcher) tellEndpoints(at time.Duration, service, component string) {
	now := history.Endpoints{Service: service, Component: component, Ready: []history.PodRef{}}
	byUID := map[string]bool{} // a pod with two addresses stands there once
	for _, name := range slices.Sorted(maps.Keys(w.endpoints.slices[service])) {
		for _, e := range w.endpoints.slices[service][name].Endpoints {
			ref := w.refOf(e, component)
			if byUID[ref.UID+ref.Name] {
				continue
			}
			byUID[ref.UID+ref.Name] = true
			switch c := e.Conditions; {
			case c.Ready == nil || *c.Ready:
				now.Ready = append(now.Ready, ref)
			case isTrue(c.Terminating) && isTrue(c.Serving):
				now.Terminating = append(now.Terminating, ref)
			default:
				now.NotReady = append(now.NotReady, ref)
			}
		}
	}
	for _, refs := range [][]history.PodRef{now.Ready, now.Terminating, now.NotReady} {
		slices.SortFunc(refs, func(a, b history.PodRef) int { return cmp.Compare(a.Name, b.Name) })
	}
	if old, ok := w.endpoints.told[service]; ok && reflect.DeepEqual(old, now) {
		return
	}
	w.endpoints.told[service] = now
	w.record(at, service, now)
}

func isTrue(b *bool) bool { return b != nil && *b }

func (w *Watcher) refOf(e discoveryv1.Endpoint, component string) history.PodRef {
	ref := history.PodRef{Component: component}
	if len(e.Addresses) > 0 {
		ref.Name = e.Addresses[0]
	}
	if e.NodeName != nil {
		ref.Node = *e.NodeName
	}
	if t := e.TargetRef; t != nil {
		ref.Name, ref.UID = t.Name, string(t.UID)
		if s := w.pods.known[types.UID(t.UID)]; s != nil {
			return s.pod.Ref()
		}
	}
	return ref
}
