package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one run of one program; a restart is a new container.
type container struct {
	id      string
	sandbox *sandbox
	cfg     *runtimeapi.ContainerConfig
	image   Image
	argv    []string
	dir     string
	logPath string

	op sync.Mutex // one start or removal at a time

	// Guarded by Runtime.mu.
	lifecycle
	run *running // set by the start, kept after the end
}

// running is what a started container consists of.
type running struct {
	proc    *process
	io      *containerIO
	cgroup  *cgroup       // nil without limits
	mountNS uint64        // inode of its mount namespace, which marks its processes
	ended   chan struct{} // closed when the end has been recorded

	earlier, latest usage // samples, guarded by Runtime.mu

	// What commands run in the container get too.
	who        identity
	env        []string
	dir        string
	bounding   uint64
	noNewPrivs bool
}

func (c *container) security() *runtimeapi.LinuxContainerSecurityContext {
	return c.cfg.GetLinux().GetSecurityContext()
}

func (c *container) pidMode() runtimeapi.NamespaceMode {
	return c.security().GetNamespaceOptions().GetPid()
}

func (r *Runtime) container(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, notFound("container", id)
	}
	return c, nil
}

// running returns the container's running part, or an error if it does not run.
func (r *Runtime) running(id string) (*container, *running, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, nil, notFound("container", id)
	}
	if !c.lifecycle.running() {
		return nil, nil, fmt.Errorf("container %s is %s, not running", id, stateName(c.state))
	}
	return c, c.run, nil
}

// CreateContainer checks everything that can be checked before the start.
func (r *Runtime) CreateContainer(ctx context.Context, podSandboxID string, cfg *runtimeapi.ContainerConfig, sandboxCfg *runtimeapi.PodSandboxConfig) (string, error) {
	r.mu.Lock()
	s := r.sandboxes[podSandboxID]
	ready := s != nil && s.ready
	r.mu.Unlock()
	if s == nil {
		return "", notFound("pod sandbox", podSandboxID)
	}
	if !ready {
		return "", fmt.Errorf("pod sandbox %s has been stopped", podSandboxID)
	}
	c := &container{id: newID(), sandbox: s, cfg: cfg, lifecycle: newLifecycle(time.Now())}
	c.dir = filepath.Join(r.cfg.Dir, "containers", c.id)
	if cfg.GetLogPath() != "" && sandboxCfg.GetLogDirectory() != "" {
		c.logPath = filepath.Join(sandboxCfg.LogDirectory, cfg.LogPath)
	}
	if err := r.check(ctx, c); err != nil {
		return "", fmt.Errorf("create container %s: %w", cfg.GetMetadata().GetName(), err)
	}
	if err := os.MkdirAll(c.dir, 0o711); err != nil {
		return "", err
	}
	r.mu.Lock()
	r.containers[c.id] = c
	r.mu.Unlock()
	r.emit(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, c.id, podSandboxID)
	return c.id, nil
}

// check finds the image and refuses what could not be given at the start.
func (r *Runtime) check(ctx context.Context, c *container) (err error) {
	if c.image, err = r.cfg.Images.Rootfs(ctx, c.cfg.GetImage().GetImage()); err != nil {
		return err
	}
	if len(c.image.Layers) == 0 {
		return fmt.Errorf("image %s has no root filesystem", c.cfg.GetImage().GetImage())
	}
	if c.argv, err = argv(c.image, c.cfg.GetCommand(), c.cfg.GetArgs()); err != nil {
		return err
	}
	if _, err := boundingSet(c.security()); err != nil {
		return err
	}
	if p := c.security().GetSeccomp(); p.GetProfileType() == runtimeapi.SecurityProfile_Localhost {
		return fmt.Errorf("seccomp profile %s: profiles from files are not supported", p.GetLocalhostRef())
	}
	if p := c.security().GetApparmor(); p.GetProfileType() == runtimeapi.SecurityProfile_Localhost {
		return fmt.Errorf("AppArmor profile %s: AppArmor is not supported", p.GetLocalhostRef())
	}
	asked := askedIdentity(c.security())
	return r.ids.check(&asked)
}

// askedIdentity is as much of the identity as the pod gives in numbers.
func askedIdentity(sc *runtimeapi.LinuxContainerSecurityContext) identity {
	id := identity{uid: uint32(sc.GetRunAsUser().GetValue()), gid: uint32(sc.GetRunAsGroup().GetValue())}
	for _, g := range sc.GetSupplementalGroups() {
		id.groups = append(id.groups, uint32(g))
	}
	return id
}

// StartContainer returns once the program has been executed, or with the reason
// why it could not be, which the container's status repeats.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	c, err := r.container(id)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	r.mu.Lock()
	state, ready := c.state, c.sandbox.ready
	r.mu.Unlock()
	if state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return fmt.Errorf("start container %s: it is %s, not created", id, stateName(state))
	}
	if !ready {
		return fmt.Errorf("start container %s: its pod sandbox has been stopped", id)
	}
	run, err := r.launch(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		c.fail(time.Now(), err)
		r.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, id, c.sandbox.id)
		return fmt.Errorf("start container %s: %w", c.cfg.GetMetadata().GetName(), err)
	}
	c.run = run
	if err := c.start(time.Now()); err != nil {
		return err
	}
	go r.awaitEnd(c, run)
	r.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, id, c.sandbox.id)
	return nil
}

// awaitEnd records the container's end, after its last output is in the log.
func (r *Runtime) awaitEnd(c *container, run *running) {
	<-run.proc.done
	if c.pidMode() != runtimeapi.NamespaceMode_CONTAINER {
		// With no PID namespace of its own, its other processes outlive the first.
		killByMountNS(run.mountNS)
	}
	run.io.finish()
	oom := run.cgroup.oomKilled()
	if err := run.cgroup.remove(); err != nil {
		r.log.Debug("cgroup stays until the container is removed", "container", c.id, "error", err)
	}
	r.mu.Lock()
	if run.proc.lost {
		c.exitUnknown(time.Now())
	} else {
		c.exit(time.Now(), run.proc.exitCode(), oom)
	}
	r.mu.Unlock()
	close(run.ended)
	r.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.id, c.sandbox.id)
}
