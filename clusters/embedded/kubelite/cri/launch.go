package cri

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"a.shakedown.dev/shim"
)

// launch prepares the root on a thread of its own, forks the shim there and tells
// it what to become.
func (r *Runtime) launch(ctx context.Context, c *container) (_ *running, err error) {
	log, err := openLog(c.logPath)
	if err != nil {
		return nil, err
	}
	run := &running{io: &containerIO{log: log}, ended: make(chan struct{})}
	l := &launch{r: r, c: c, run: run}
	defer l.closeChildEnds()
	defer func() {
		if err != nil {
			l.abort()
		}
	}()
	if l.volumes, err = r.imageVolumes(ctx, c); err != nil {
		return nil, err
	}
	if run.cgroup, err = r.cgroups.create(c); err != nil {
		return nil, err
	}
	if err := onThread(l.fork); err != nil {
		return nil, err
	}
	run.proc = l.forked.proc
	if run.mountNS, err = mountNSOf(run.proc.pid); err != nil {
		return nil, err
	}
	l.spec.Cgroups = run.cgroup.visible()
	if err := l.forked.run(&l.spec); err != nil {
		return nil, err
	}
	run.io.pump(run.proc.done, l.stdout, l.stderr)
	return run, nil
}

// launch is a start under way.
type launch struct {
	r       *Runtime
	c       *container
	run     *running
	volumes map[*runtimeapi.Mount]Image
	spec    shim.Spec
	forked  *forked

	child          stdio    // the child's descriptors, closed here once forked
	stdout, stderr *os.File // our ends
}

// fork runs on a thread that is given up afterwards: its mount namespace is the
// container's, up to the shim's change of root.
func (l *launch) fork() error {
	s := l.c.sandbox
	cgroupFD, err := l.run.cgroup.enter()
	if err != nil {
		return err
	}
	if cgroupFD >= 0 {
		defer unix.Close(cgroupFD)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.ns == nil {
		return fmt.Errorf("its pod sandbox has been stopped")
	}
	if err := enter(s.ns.net, s.ns.ipc, s.ns.uts); err != nil {
		return err
	}
	unix.Umask(0)
	root, err := l.mountRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := l.openStreams(root); err != nil {
		return err
	}
	if err := l.describe(root); err != nil {
		return err
	}
	if err := root.seal(l.c.security().GetReadonlyRootfs()); err != nil {
		return err
	}
	flags, err := l.pidNamespace()
	if err != nil {
		return err
	}
	if err := unix.Fchdir(root.fd); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	l.forked, err = forkShim(l.child, flags, cgroupFD)
	return err
}

// pidNamespace makes the next child start in the right PID namespace.
func (l *launch) pidNamespace() (cloneFlags uintptr, err error) {
	join := func(p *process) error {
		return p.withFD(func(fd int) error { return unix.Setns(fd, unix.CLONE_NEWPID) })
	}
	switch opts := l.c.security().GetNamespaceOptions(); opts.GetPid() {
	case runtimeapi.NamespaceMode_NODE:
		return 0, nil
	case runtimeapi.NamespaceMode_POD:
		if l.c.sandbox.pause == nil {
			return 0, fmt.Errorf("the pod has no shared process namespace")
		}
		err = join(l.c.sandbox.pause)
	case runtimeapi.NamespaceMode_TARGET:
		_, target, rerr := l.r.running(opts.GetTargetId())
		if rerr != nil {
			return 0, fmt.Errorf("target container: %w", rerr)
		}
		err = join(target.proc)
	default:
		return unix.CLONE_NEWPID, nil
	}
	if err != nil {
		return 0, fmt.Errorf("enter the shared process namespace: %w", err)
	}
	return 0, nil
}

// describe fills the specification; all paths are looked up inside the root.
func (l *launch) describe(root root) (err error) {
	c, sc := l.c, l.c.security()
	who, err := root.lookUpUser(c.image, sc)
	if err != nil {
		return err
	}
	if err := l.r.ids.check(&who); err != nil {
		return err
	}
	if c.cfg.GetTty() {
		// Its owner must be able to open the terminal again by name.
		unix.Fchown(l.child.in, int(who.uid), -1)
	}
	l.run.who = who
	l.run.dir = workingDir(c.image, c.cfg.GetWorkingDir())
	fd, err := root.mkdirAll(l.run.dir)
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	unix.Close(fd)
	defaults := []string{"HOSTNAME=" + c.sandbox.hostname(), "HOME=" + who.home}
	if c.cfg.GetTty() {
		defaults = append(defaults, "TERM=xterm")
	}
	l.run.env = environ(c.image, c.cfg.GetEnvs(), defaults...)
	path, err := root.lookPath(c.argv[0], l.run.dir, l.run.env)
	if err != nil {
		return err
	}
	if l.run.bounding, err = boundingSet(sc); err != nil {
		return err
	}
	l.run.noNewPrivs = sc.GetNoNewPrivs()
	l.spec = shim.Spec{
		Proc: !c.mounts("/proc"),
		Path: path, Argv: c.argv, Env: l.run.env, Dir: l.run.dir,
		UID: who.uid, GID: who.gid, Groups: who.groups,
		Bounding: l.run.bounding, NoNewPrivs: l.run.noNewPrivs,
		OOMScoreAdj: int(c.cfg.GetLinux().GetResources().GetOomScoreAdj()),
	}
	if !sc.GetPrivileged() {
		l.spec.Masked, l.spec.ReadOnly = absolute(sc.GetMaskedPaths()), absolute(sc.GetReadonlyPaths())
	}
	return nil
}

func absolute(paths []string) []string {
	var out []string
	for _, p := range paths {
		if strings.HasPrefix(p, "/") && len(p) > 1 {
			out = append(out, p)
		}
	}
	return out
}

// abort leaves nothing of a start that did not succeed.
func (l *launch) abort() {
	if l.forked != nil {
		l.forked.abandon()
	}
	for _, f := range []*os.File{l.stdout, l.stderr, l.run.io.stdin} {
		if f != nil {
			f.Close()
		}
	}
	l.run.io.log.Close()
	if err := l.run.cgroup.remove(); err != nil {
		l.r.log.Warn("remove cgroup", "container", l.c.id, "error", err)
	}
}

// mountNSOf returns the inode that marks a process's mount namespace.
func mountNSOf(pid int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/mnt", pid), &st); err != nil {
		return 0, fmt.Errorf("mount namespace of the container: %w", err)
	}
	return st.Ino, nil
}
