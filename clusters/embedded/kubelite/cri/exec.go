package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Namespaces that a command shares with its container.
const execNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// command is a program to run inside a running container.
type command struct {
	argv   []string
	tty    bool
	stdin  io.Reader // nil: none
	stdout io.Writer // nil: thrown away
	stderr io.Writer
	resize <-chan remotecommand.TerminalSize
}

// exec runs cmd to its end and returns its exit code. When ctx ends first, the
// command's processes are killed and the cause is returned.
func (r *Runtime) exec(ctx context.Context, id string, cmd command) (int32, error) {
	_, run, err := r.running(id)
	if err != nil {
		return 0, err
	}
	if len(cmd.argv) == 0 {
		return 0, errors.New("exec: no command given")
	}
	e := &execution{cmd: cmd, run: run, cgroups: r.cgroups}
	defer e.closeChildEnds()
	if !cmd.tty {
		if err := e.openPipes(); err != nil {
			e.closeOurEnds()
			return 0, err
		}
	}
	if err := onThread(e.fork); err != nil {
		e.closeOurEnds()
		return 0, err
	}
	e.closeChildEnds()
	return e.wait(ctx)
}

// execution is a command under way.
type execution struct {
	cmd     command
	run     *running
	cgroups *cgroupRoot
	proc    *process

	child                 stdio
	stdin, stdout, stderr *os.File // our ends; the terminal is stdin and stdout
}

func (e *execution) openPipes() (err error) {
	e.child = stdio{in: -1, out: -1, err: -1}
	if e.cmd.stdin == nil {
		if e.child.in, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return &os.PathError{Op: "open", Path: "/dev/null", Err: err}
		}
	} else if e.child.in, e.stdin, err = pipeToChild(); err != nil {
		return err
	}
	if e.stdout, e.child.out, err = pipeFromChild(); err != nil {
		return err
	}
	e.stderr, e.child.err, err = pipeFromChild()
	return err
}

// fork enters the container on a thread that is given up afterwards; nothing is
// executed on the way but the command itself.
func (e *execution) fork() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	cgroupFD, err := e.run.cgroup.enter()
	if err != nil {
		return err
	}
	if cgroupFD >= 0 {
		defer unix.Close(cgroupFD)
	}
	if err := e.run.proc.withFD(func(fd int) error { return unix.Setns(fd, execNamespaces) }); err != nil {
		return fmt.Errorf("enter the container: %w", err)
	}
	unix.Umask(0o022)
	if e.cmd.tty {
		if e.stdin, e.child.in, err = openTerminal("/dev/pts/ptmx"); err != nil {
			return err
		}
		e.stdout = e.stdin
		e.child = stdio{in: e.child.in, out: e.child.in, err: e.child.in, tty: true}
		unix.Fchown(e.child.in, int(e.run.who.uid), -1)
	}
	path, err := e.lookPath()
	if err != nil {
		return err
	}
	if err := restrict(e.run.bounding, e.run.noNewPrivs); err != nil {
		return err
	}
	return e.start(path, cgroupFD)
}

func (e *execution) lookPath() (string, error) {
	r, err := openRoot("/")
	if err != nil {
		return "", err
	}
	defer r.Close()
	return r.lookPath(e.cmd.argv[0], e.run.dir, e.run.env)
}

// restrict gives the calling thread, and so its children, the container's limits.
func restrict(bounding uint64, noNewPrivs bool) error {
	for c := range len(capabilityNames) {
		if bounding&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	if noNewPrivs {
		return os.NewSyscallError("set no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	}
	return nil
}

func (e *execution) start(path string, cgroupFD int) error {
	env := e.run.env
	if e.cmd.tty && lookupEnv(env, "TERM") == "" {
		env = append(append([]string{}, env...), "TERM=xterm")
	}
	pidfd := -1
	who := e.run.who
	pid, err := syscall.ForkExec(path, e.cmd.argv, &syscall.ProcAttr{
		Dir: e.run.dir, Env: env,
		Files: []uintptr{uintptr(e.child.in), uintptr(e.child.out), uintptr(e.child.err)},
		Sys: &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups, NoSetGroups: who.groups == nil},
			Setsid:     true, Setctty: e.child.tty, PidFD: &pidfd,
			UseCgroupFD: cgroupFD >= 0, CgroupFD: max(cgroupFD, 0),
		},
	})
	if err != nil {
		return fmt.Errorf("exec: %q: %w", e.cmd.argv[0], err)
	}
	e.proc, err = watch(pid, pidfd)
	return err
}

// wait copies the streams until the command has ended.
func (e *execution) wait(ctx context.Context) (int32, error) {
	var copies sync.WaitGroup
	e.copyIn()
	e.copyOut(&copies, e.stdout, e.cmd.stdout)
	e.copyOut(&copies, e.stderr, e.cmd.stderr)
	select {
	case <-e.proc.done:
	case <-ctx.Done():
		e.kill()
		copies.Wait()
		return 0, context.Cause(ctx)
	}
	copies.Wait()
	if e.proc.lost {
		return 0, fmt.Errorf("exec: the exit status of %q was lost", e.cmd.argv[0])
	}
	return e.proc.exitCode(), nil
}

func (e *execution) copyIn() {
	if e.stdin == nil {
		return
	}
	if e.cmd.stdin != nil {
		go func() {
			io.Copy(e.stdin, e.cmd.stdin)
			if !e.cmd.tty {
				e.stdin.Close()
			}
		}()
	}
	if e.cmd.tty && e.cmd.resize != nil {
		go func() {
			for {
				select {
				case size, ok := <-e.cmd.resize:
					if !ok {
						return
					}
					resizeTerminal(e.stdin, size.Width, size.Height)
				case <-e.proc.done:
					return
				}
			}
		}()
	}
}

// copyOut delivers a stream. When the client of a terminal is gone the terminal
// hangs up, as when a line is cut.
func (e *execution) copyOut(copies *sync.WaitGroup, from *os.File, to io.Writer) {
	if from == nil {
		return
	}
	copies.Go(func() {
		drain(from, e.proc.done, func(p []byte) {
			if to == nil {
				return
			}
			if _, err := to.Write(p); err != nil {
				to = nil
				if e.cmd.tty {
					from.Close()
				}
			}
		})
	})
}

// kill ends the command and whatever it started that still hangs together with it.
func (e *execution) kill() {
	pids := append(descendants(e.proc.pid), -e.proc.pid) // the session's first process group
	e.proc.signal(unix.SIGKILL)
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGKILL)
	}
	select {
	case <-e.proc.done:
	case <-time.After(killLimit):
	}
}

func (e *execution) closeChildEnds() {
	done := map[int]bool{0: true, -1: true}
	for _, fd := range []int{e.child.in, e.child.out, e.child.err} {
		if !done[fd] {
			unix.Close(fd)
			done[fd] = true
		}
	}
	e.child = stdio{}
}

func (e *execution) closeOurEnds() {
	for _, f := range []*os.File{e.stdin, e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
