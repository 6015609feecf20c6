package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopContainer sends the stop signal, waits up to timeout seconds, then kills.
func (r *Runtime) StopContainer(ctx context.Context, id string, timeout int64) error {
	c, err := r.container(id)
	if err != nil {
		return nil // gone is stopped
	}
	if err := r.stop(ctx, c, time.Duration(timeout)*time.Second); err != nil {
		return fmt.Errorf("stop container %s: %w", c.cfg.GetMetadata().GetName(), err)
	}
	return nil
}

func (r *Runtime) stop(ctx context.Context, c *container, grace time.Duration) error {
	c.op.Lock() // a start under way comes first
	r.mu.Lock()
	run, isRunning := c.run, c.lifecycle.running()
	r.mu.Unlock()
	c.op.Unlock()
	if !isRunning {
		return nil
	}
	if grace > 0 {
		if err := run.proc.signal(stopSignal(c)); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-run.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	if err := run.proc.killAndWait(killLimit); err != nil {
		return err
	}
	<-run.ended
	return nil
}

func stopSignal(c *container) unix.Signal {
	if s := c.cfg.GetStopSignal(); s != runtimeapi.Signal_RUNTIME_DEFAULT {
		if sig, ok := parseSignal(s.String()); ok {
			return sig
		}
	}
	if sig, ok := parseSignal(c.image.StopSignal); ok {
		return sig
	}
	return unix.SIGTERM
}

// RemoveContainer ends and forgets a container; its log stays the kubelet's.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	c, err := r.container(id)
	if err != nil {
		return nil
	}
	if err := r.stop(ctx, c, 0); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	c.op.Lock()
	defer c.op.Unlock()
	r.mu.Lock()
	run := c.run
	r.mu.Unlock()
	var errs []error
	if run != nil {
		errs = append(errs, run.cgroup.remove())
	}
	errs = append(errs, os.RemoveAll(c.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	r.mu.Lock()
	delete(r.containers, id)
	r.mu.Unlock()
	r.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, id, c.sandbox.id)
	return nil
}
