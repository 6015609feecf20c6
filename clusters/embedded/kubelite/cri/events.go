package cri

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBacklog is how many events a slow listener may fall behind before it
// loses some; the kubelet lists everything again at intervals anyway.
const eventBacklog = 1024

// events tells listeners what happens to sandboxes and containers.
type events struct {
	mu        sync.Mutex
	listeners map[chan *runtimeapi.ContainerEventResponse]struct{}
}

func (r *Runtime) emit(kind runtimeapi.ContainerEventType, id, sandbox string) {
	r.events.send(&runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(),
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{Id: sandbox},
	})
}

func (e *events) send(ev *runtimeapi.ContainerEventResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.listeners {
		select {
		case l <- ev:
		default:
		}
	}
}

func (e *events) listen() (chan *runtimeapi.ContainerEventResponse, func()) {
	l := make(chan *runtimeapi.ContainerEventResponse, eventBacklog)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners == nil {
		e.listeners = map[chan *runtimeapi.ContainerEventResponse]struct{}{}
	}
	e.listeners[l] = struct{}{}
	return l, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, l)
	}
}

// GetContainerEvents sends events, with the pod's full status, until ctx ends.
func (r *Runtime) GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, connected func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	l, stop := r.events.listen()
	defer stop()
	if connected != nil {
		connected(nil)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev := <-l:
			select {
			case ch <- r.fillEvent(ev):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// fillEvent adds the state of the pod as it is now. A pod just removed has none.
func (r *Runtime) fillEvent(ev *runtimeapi.ContainerEventResponse) *runtimeapi.ContainerEventResponse {
	full := &runtimeapi.ContainerEventResponse{
		ContainerId: ev.ContainerId, ContainerEventType: ev.ContainerEventType, CreatedAt: ev.CreatedAt,
		PodSandboxStatus: ev.PodSandboxStatus,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[ev.PodSandboxStatus.GetId()]
	if s == nil {
		return full
	}
	full.PodSandboxStatus = s.status()
	for _, c := range r.containers {
		if c.sandbox == s {
			full.ContainersStatuses = append(full.ContainersStatuses, c.status())
		}
	}
	return full
}
