package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ReopenContainerLog goes on in a new file, after the kubelet has renamed the old.
func (r *Runtime) ReopenContainerLog(_ context.Context, id string) error {
	_, run, err := r.running(id)
	if err != nil {
		return err
	}
	return run.io.log.reopen()
}

// UpdateContainerResources changes the limits of a running container, or of one
// about to run. Where limits do not hold it says so.
func (r *Runtime) UpdateContainerResources(_ context.Context, id string, res *runtimeapi.ContainerResources) error {
	if ok, why := r.Limits(); !ok {
		return fmt.Errorf("update resources: limits do not hold on this node: %s", why)
	}
	c, err := r.container(id)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.run != nil && c.lifecycle.running() {
		if err := c.run.cgroup.set(res.GetLinux()); err != nil {
			return fmt.Errorf("update resources: %w", err)
		}
	}
	if c.cfg.Linux == nil {
		c.cfg.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	c.cfg.Linux.Resources = res.GetLinux()
	return nil
}

// UpdatePodSandboxResources has no cgroup to change: pods have none of their own.
func (r *Runtime) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func (r *Runtime) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) error {
	return unimplemented("this runtime cannot checkpoint containers")
}

// Close ends every container and gives back what the pods hold.
func (r *Runtime) Close(ctx context.Context) error {
	var errs []error
	r.mu.Lock()
	var ids []string
	for id := range r.sandboxes {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	for _, id := range ids {
		errs = append(errs, r.RemovePodSandbox(ctx, id))
	}
	if r.cancel != nil {
		r.cancel()
	}
	if r.stream != nil {
		errs = append(errs, r.stream.Close())
	}
	if r.net != nil {
		errs = append(errs, r.net.Close())
	}
	if r.cgroups != nil {
		errs = append(errs, r.cgroups.remove())
	}
	return errors.Join(errs...)
}

// orphanAge is how long a zombie must have waited before it is taken for an
// orphan: whoever started a process in this one waits for it at once.
const orphanAge = 5 * time.Second

// reapOrphans does what the first process of a PID namespace owes it: processes
// of hostPID pods whose parents have ended become this one's children.
func (r *Runtime) reapOrphans(ctx context.Context) {
	seen := map[int]bool{}
	t := time.NewTicker(orphanAge)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			seen = reapSeen(os.Getpid(), seen, r.owns)
		}
	}
}

// owns says whether a process is the first of a container or of a pod, which
// have someone who waits for them.
func (r *Runtime) owns(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.run != nil && c.run.proc.pid == pid {
			return true
		}
	}
	for _, s := range r.sandboxes {
		if s.pause != nil && s.pause.pid == pid {
			return true
		}
	}
	return false
}
