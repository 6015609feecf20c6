package cri

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"a.shakedown.dev/shim"
)

// process is a child of the node's process: the first of a container, of a
// command run in one, or the reaper of a shared PID namespace.
type process struct {
	pid    int
	fd     *os.File      // pidfd, non-blocking so that the poller waits, not a thread
	done   chan struct{} // closed once reaped
	status unix.WaitStatus
	lost   bool // somebody else in this process waited for it: status says nothing
}

// unknownExitCode is that of a process whose status was lost, as in containerd.
const unknownExitCode = 255

// watch adopts a forked child and reaps it when it ends.
func watch(pid, pidfd int) (*process, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return nil, err
	}
	p := &process{pid: pid, fd: os.NewFile(uintptr(pidfd), "pidfd"), done: make(chan struct{})}
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	go func() {
		// The read returns early only if the file is closed, which is below.
		if err := conn.Read(func(uintptr) bool { return p.reap(unix.WNOHANG) }); err != nil {
			p.reap(0)
		}
		close(p.done)
		p.fd.Close()
	}()
	return p, nil
}

func (p *process) reap(flags int) bool {
	for {
		got, err := unix.Wait4(p.pid, &p.status, flags, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.lost = err != nil
		return got == p.pid || p.lost
	}
}

// signal is safe at any time: a process that has ended is not signalled.
func (p *process) signal(sig unix.Signal) error {
	return p.withFD(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// withFD lends the pidfd, or returns os.ErrProcessDone.
func (p *process) withFD(f func(fd int) error) error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return os.ErrProcessDone
	}
	ferr := os.ErrProcessDone
	if err := conn.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return os.ErrProcessDone
	}
	if errors.Is(ferr, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return ferr
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exitCode is valid after done: the code, or 128 plus the signal's number.
func (p *process) exitCode() int32 {
	if p.lost {
		return unknownExitCode
	}
	if p.status.Signaled() {
		return 128 + int32(p.status.Signal())
	}
	return int32(p.status.ExitStatus())
}

// killAndWait ends the process by SIGKILL; an error means the kernel could not
// end it within the limit (it hangs in the kernel).
func (p *process) killAndWait(limit time.Duration) error {
	if err := p.signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-t.C:
		return fmt.Errorf("process %d has not ended %s after SIGKILL", p.pid, limit)
	}
}

// stdio is what a child gets as 0, 1 and 2; tty says that 0 is a terminal,
// which becomes its controlling one.
type stdio struct {
	in, out, err int
	tty          bool
}

// forked is a shim that waits for its specification.
type forked struct {
	proc   *process
	spec   *os.File // write end
	status *os.File // read end
}

// forkShim starts the shim as a child of the calling thread, whose namespaces
// and working directory it inherits, in the cgroup of cgroupFD unless that is -1.
func forkShim(io stdio, cloneFlags uintptr, cgroupFD int) (_ *forked, err error) {
	specR, specW, err := pipeToChild()
	if err != nil {
		return nil, err
	}
	defer unix.Close(specR)
	statusR, statusW, err := pipeFromChild()
	if err != nil {
		specW.Close()
		return nil, err
	}
	defer unix.Close(statusW)
	pidfd := -1
	pid, err := syscall.ForkExec("/proc/self/exe", []string{shim.Arg0}, &syscall.ProcAttr{
		Env:   []string{},
		Files: []uintptr{uintptr(io.in), uintptr(io.out), uintptr(io.err), uintptr(specR), uintptr(statusW)},
		Sys: &syscall.SysProcAttr{
			Cloneflags: cloneFlags, Setsid: true, Setctty: io.tty, PidFD: &pidfd,
			UseCgroupFD: cgroupFD >= 0, CgroupFD: max(cgroupFD, 0),
		},
	})
	f := &forked{spec: specW, status: statusR}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	if f.proc, err = watch(pid, pidfd); err != nil {
		unix.Kill(pid, unix.SIGKILL)
		f.close()
		return nil, err
	}
	return f, nil
}

// run hands over the specification and waits until the program runs.
func (f *forked) run(s *shim.Spec) error {
	defer f.close()
	_, err := f.spec.Write(s.Encode())
	f.spec.Close()
	msg, rerr := io.ReadAll(f.status)
	switch {
	case len(msg) > 0:
		<-f.proc.done
		return errors.New(string(msg))
	case err != nil || rerr != nil:
		f.proc.killAndWait(killLimit)
		return fmt.Errorf("talk to the shim: %w", errors.Join(err, rerr))
	}
	return nil
}

// abandon ends a shim that has not been told what to run.
func (f *forked) abandon() {
	f.proc.killAndWait(killLimit)
	f.close()
}

func (f *forked) close() {
	f.spec.Close()
	f.status.Close()
}
