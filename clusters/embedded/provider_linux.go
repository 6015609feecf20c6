package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// startLimit is how long a cluster may take to become ready; it takes seconds, hollow nodes a minute.
const startLimit = 5 * time.Minute

// Up starts kubelite and waits until it is ready.
func (p *Provider) Up(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	if spec.Name == "" {
		spec.Name = clusters.DefaultName
	}
	if err := spec.Validate(); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("cluster %s was not ready after %s", spec.Name, startLimit))
	defer cancel()
	cache, err := p.cacheDir()
	if err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	boot, err := bootSpec(spec, cache)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	control, err := listenControl(os.Geteuid(), spec.Name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return p.adopt(ctx, spec.Name, boot)
	}
	if err != nil {
		return nil, fmt.Errorf("control socket of cluster %s: %w", spec.Name, err)
	}
	defer control.Close()
	return p.launch(ctx, boot, control, spec.Detach)
}

// launch starts a cluster whose name is already ours. On any error nothing of it is left.
func (p *Provider) launch(ctx context.Context, boot BootSpec, control *os.File, detach bool) (clusters.Cluster, error) {
	kubelite, err := p.preflight(boot.ImageCache)
	if err != nil {
		return nil, err
	}
	h, err := start(kubelite, boot, control)
	if err != nil {
		return nil, err
	}
	p.log().Debug("kubelite started", "cluster", boot.Name, "program", kubelite, "init", h.init.Process.Pid,
		"images", h.images.Process.Pid, "cache", boot.ImageCache)
	// From here on our copy would keep the name alive after kubelite.
	control.Close()
	if err := h.await(ctx, StepReady, p.report); err != nil {
		h.kill()
		return nil, err
	}
	c := open(os.Geteuid(), boot.Name)
	if !detach {
		c.held = h
		return c, nil
	}
	if err := h.detach(); err != nil {
		h.kill()
		return nil, err
	}
	return c, nil
}

// adopt returns the cluster that has the name already, if it has the same shape. One that another
// process is starting is waited for.
func (p *Provider) adopt(ctx context.Context, name string, want BootSpec) (clusters.Cluster, error) {
	c := open(os.Geteuid(), name)
	s, err := c.started(ctx)
	if errors.Is(err, errForeign) {
		return nil, exit.Hint(err, "choose another --name")
	}
	if err != nil {
		return nil, err
	}
	if err := sameShape(s.Spec, want); err != nil {
		return nil, exit.Hint(exit.With(exit.Usage, &clusters.NameError{Name: name, Err: err}),
			fmt.Sprintf("choose another --name, or first run: shakedown cluster down --name %s", name))
	}
	p.report(clusters.Step{Name: "already up", State: clusters.StepNote, Detail: "since " + s.Started.Local().Format(time.DateTime)})
	return c, nil
}

// started returns the status when the cluster has finished to start.
func (c *Cluster) started(ctx context.Context) (*Status, error) {
	for {
		s, err := c.status(ctx)
		if err != nil || !s.Starting {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// List reads the kernel's list of sockets. Nothing is asked of the clusters themselves.
func (p *Provider) List(context.Context) ([]clusters.Cluster, error) {
	uid := os.Geteuid()
	sockets, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer sockets.Close()
	names, err := controlNames(sockets, uid)
	if err != nil {
		return nil, fmt.Errorf("read /proc/net/unix: %w", err)
	}
	var found []clusters.Cluster
	for _, name := range names {
		found = append(found, open(uid, name))
	}
	return found, nil
}
