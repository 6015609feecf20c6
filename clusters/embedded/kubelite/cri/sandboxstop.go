package cri

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopPodSandbox ends the pod's containers and gives its address back. Called
// again, it does what was left undone.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	s := r.sandboxes[id]
	if s == nil {
		r.mu.Unlock()
		return nil
	}
	was := s.ready
	s.ready = false
	r.mu.Unlock()
	var errs []error
	for _, c := range r.containersOf(id) {
		errs = append(errs, r.stop(ctx, c, 0))
	}
	errs = append(errs, r.tearDown(ctx, s))
	if was {
		r.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, id, id)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop pod sandbox: %w", err)
	}
	return nil
}

// tearDown undoes as much of setUpSandbox as was done and not yet undone.
func (r *Runtime) tearDown(ctx context.Context, s *sandbox) error {
	s.op.Lock()
	defer s.op.Unlock()
	var errs []error
	if s.pause != nil {
		errs = append(errs, s.pause.killAndWait(killLimit))
	}
	if s.ports {
		err := r.ports.close(ctx, s)
		s.ports = err != nil
		errs = append(errs, err)
	}
	if s.link != "" {
		errs = append(errs, r.net.disconnect(s.link))
	}
	if s.held {
		r.addrs.release(s.ip)
		s.held = false
	}
	if s.ns != nil {
		errs = append(errs, s.ns.Close())
		s.ns = nil
	}
	if s.shm {
		err := unix.Unmount(s.path("shm"), unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // not there is undone
			errs = append(errs, os.NewSyscallError("unmount /dev/shm of the pod", err))
		} else {
			s.shm = false
		}
	}
	return errors.Join(errs...)
}

// RemovePodSandbox forgets the pod and its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	s := r.sandboxes[id]
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	errs := []error{r.StopPodSandbox(ctx, id)}
	for _, c := range r.containersOf(id) {
		errs = append(errs, r.RemoveContainer(ctx, c.id))
	}
	errs = append(errs, os.RemoveAll(s.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove pod sandbox: %w", err)
	}
	r.mu.Lock()
	delete(r.sandboxes, id)
	r.mu.Unlock()
	r.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, id, id)
	return nil
}

func (r *Runtime) containersOf(sandbox string) []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var own []*container
	for _, c := range r.containers {
		if c.sandbox.id == sandbox {
			own = append(own, c)
		}
	}
	return own
}
