package boot

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// spawnGuest runs a program of the caller's in the cluster's own namespaces,
// on the descriptors that came with the request, and reports its exit status.
// The caller closing its end kills it.
func (c *cluster) spawnGuest(conn *net.UnixConn, req request, fds []int) {
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "guest")
	}
	cmd, err := guest(req, files)
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		answer(conn, response{Error: err.Error(), Errno: errno(err)}, nil)
		return
	}
	pid := cmd.Process.Pid
	c.host(pid, true)
	defer c.host(pid, false)
	answer(conn, response{OK: true, PID: pid}, nil)
	go func() {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}()
	_ = cmd.Wait() // its status tells all
	code := exitCode(cmd.ProcessState)
	answer(conn, response{OK: true, Exit: &code}, nil)
}

func guest(req request, files []*os.File) (*exec.Cmd, error) {
	want := 3
	if req.TTY {
		want = 1
	}
	if len(files) != want {
		return nil, fmt.Errorf("spawn: %d descriptors came, want %d", len(files), want)
	}
	if len(req.Argv) == 0 {
		return nil, fmt.Errorf("spawn: no program given")
	}
	cmd := exec.Command(req.Argv[0], req.Argv[1:]...)
	cmd.Dir = req.Dir
	cmd.Env = append(append(os.Environ(), req.Env...), "KUBECONFIG="+kubeconfigPath("admin"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if req.TTY {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[0], files[0]
		cmd.SysProcAttr.Setctty = true
	} else {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	}
	return cmd, nil
}

// host notes that a handler waits for pid, so that the reaper leaves it alone.
func (v *supervisor) host(pid int, here bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if here {
		v.guests[pid] = true
	} else {
		delete(v.guests, pid)
	}
}

// exitCode is what a shell would say: the status, or 128 and the signal.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
