//go:build linux

package embeddedtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters/embedded"
)

func (f *fake) serveControl(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go f.serve(conn.(*net.UnixConn))
	}
}

func (f *fake) serve(conn *net.UnixConn) {
	defer conn.Close()
	request, files, err := receive(conn)
	switch {
	case err != nil:
		answer(conn, embedded.Response{Error: err.Error()})
	case request.Op == embedded.OpDial:
		dial(conn, request)
	case request.Op == embedded.OpSpawn:
		spawn(conn, request, files)
	default:
		answer(conn, f.reply(request))
		if request.Op == embedded.OpDown {
			f.once.Do(func() { close(f.down) })
		}
	}
}

func (f *fake) reply(r embedded.Request) embedded.Response {
	switch r.Op {
	case embedded.OpStatus:
		return embedded.Response{OK: true, Status: f.status()}
	case embedded.OpKubeconfig:
		return embedded.Response{OK: true, Kubeconfig: kubeconfig(f.spec)}
	case embedded.OpNode:
		return f.node(r)
	case embedded.OpImage, embedded.OpDown:
		return embedded.Response{OK: true}
	}
	return embedded.Response{Error: "operation " + r.Op + " is not known"}
}

func (f *fake) node(r embedded.Request) embedded.Response {
	state, known := map[string]string{
		"kill": "killed", "pause": "paused", "partition": "partitioned",
		"resume": "running", "heal": "running", "restart": "running",
	}[r.Action]
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.states {
		if nodeName(i) == r.Node && known && f.mode != ModeNoNodes {
			f.states[i] = state
			return embedded.Response{OK: true}
		}
	}
	return embedded.Response{Error: "there is no node " + r.Node}
}

func (f *fake) status() *embedded.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &embedded.Status{
		Name: f.spec.Name, PID: 1, Started: f.started, Version: Version, Spec: f.spec, Starting: f.starting,
		APIServer: "https://127.0.0.1:" + strconv.Itoa(f.spec.APIPort),
		Limits:    embedded.Limits{Why: "the fake has none"},
	}
	for i, state := range f.states {
		s.Nodes = append(s.Nodes, embedded.NodeStatus{Name: nodeName(i), State: state})
	}
	for i := range f.spec.HollowNodes {
		s.Nodes = append(s.Nodes, embedded.NodeStatus{Name: fmt.Sprintf("hollow%d", i+1), State: "running", Hollow: true})
	}
	return s
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

func kubeconfig(spec embedded.BootSpec) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
clusters: [{name: %[1]s, cluster: {server: "https://127.0.0.1:%[2]d"}}]
users: [{name: admin, user: {token: fake}}]
contexts: [{name: %[1]s, context: {cluster: %[1]s, user: admin}}]
`, spec.Name, spec.APIPort)
}

func receive(conn *net.UnixConn) (embedded.Request, []*os.File, error) {
	var request embedded.Request
	buf, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return request, nil, err
	}
	var files []*os.File
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return request, nil, err
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "received"))
			}
		}
	}
	line := buf[:n]
	if line[n-1] != '\n' {
		rest, err := bufio.NewReader(conn).ReadBytes('\n')
		if err != nil {
			return request, files, err
		}
		line = append(line, rest...)
	}
	return request, files, json.Unmarshal(line, &request)
}

func answer(conn *net.UnixConn, r embedded.Response, fds ...int) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, _ = conn.WriteMsgUnix(append(line, '\n'), oob, nil)
}

func dial(conn *net.UnixConn, r embedded.Request) {
	far, err := net.Dial(r.Network, r.Address)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		answer(conn, embedded.Response{Error: err.Error(), Errno: int(errno)})
		return
	}
	defer far.Close()
	raw, err := far.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { answer(conn, embedded.Response{OK: true}, int(fd)) })
	}
	if err != nil {
		answer(conn, embedded.Response{Error: err.Error()})
	}
}

func spawn(conn *net.UnixConn, r embedded.Request, files []*os.File) {
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Env, cmd.Dir = r.Env, r.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: r.TTY}
	if r.TTY {
		files = []*os.File{files[0], files[0], files[0]}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	err := cmd.Start()
	for _, file := range files {
		_ = file.Close()
	}
	if err != nil {
		answer(conn, embedded.Response{Error: err.Error()})
		return
	}
	answer(conn, embedded.Response{PID: cmd.Process.Pid})
	go func() {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	answer(conn, embedded.Response{Exit: &code})
}
