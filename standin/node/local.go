package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// EnvShell is the environment variable that chooses what sessions run: "echo" is the built-in shell, anything else the login's own.
const EnvShell = "STANDIN_SHELL"

// EchoCommand is the command that runs the built-in shell in a single session.
const EchoCommand = "standin-echo"

// LocalRunner runs programs on this host.
type LocalRunner struct {
	// Echo makes every shell and command run in the built-in shell.
	Echo bool
}

// Start starts the login's shell, a command in it, or a subsystem.
func (r LocalRunner) Start(ctx context.Context, req Request) (Program, error) {
	if req.Subsystem != "" {
		return startSubsystem(req)
	}
	if r.Echo || strings.HasPrefix(req.Command, EchoCommand) {
		return newEcho(req), nil
	}
	cmd, err := shellCommand(req)
	if err != nil {
		return unlaunched{err}, nil
	}
	if req.PTY != nil {
		return startTerminal(cmd, req.PTY)
	}
	return startPiped(cmd)
}

// account is what the host knows about a login.
type account struct {
	uid, gid    uint32
	groups      []uint32
	home, shell string
}

func lookup(login string) (account, error) {
	u, err := user.Lookup(login)
	if err != nil {
		return account{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user id of %s: %w", login, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("group id of %s: %w", login, err)
	}
	a := account{uid: uint32(uid), gid: uint32(gid), home: u.HomeDir, shell: loginShell(login)}
	ids, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("groups of %s: %w", login, err)
	}
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			a.groups = append(a.groups, uint32(g))
		}
	}
	return a, nil
}

// loginShell is the last field of the login's line in /etc/passwd, or /bin/sh.
func loginShell(login string) string {
	const fallback = "/bin/sh"
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return fallback
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[0] == login && fields[6] != "" {
			return fields[6]
		}
	}
	return fallback
}

// shellCommand is the login shell, or a command in it, run as the login in its home.
func shellCommand(req Request) (*exec.Cmd, error) {
	a, err := lookup(req.Login)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: a.shell, Args: []string{"-" + filepath.Base(a.shell)}, Dir: "/"}
	if req.Command != "" {
		cmd.Args = []string{a.shell, "-c", req.Command}
	}
	if info, err := os.Stat(a.home); err == nil && info.IsDir() {
		cmd.Dir = a.home
	}
	cmd.Env = append([]string{"LANG=en_US.UTF-8", searchPath(a.uid), "HOME=" + a.home, "USER=" + req.Login, "SHELL=" + a.shell}, req.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 && a.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
	return cmd, nil
}

func searchPath(uid uint32) string {
	if uid == 0 {
		return "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return "PATH=/usr/local/bin:/usr/bin:/bin"
}

// exitOf translates how a process ended.
func exitOf(err error) Exit {
	if err == nil {
		return Exit{}
	}
	exitErr, ok := err.(*exec.ExitError)
	if !ok {
		return Exit{Status: 255}
	}
	status, ok := exitErr.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Exit{Status: 128 + uint32(status.Signal()), Signal: signalName(status.Signal())}
	}
	return Exit{Status: uint32(exitErr.ExitCode())}
}

// unlaunched stands for a program that could not be started, of which the real node tells on its output.
type unlaunched struct{ err error }

func (u unlaunched) Run(_ io.Reader, out, _ io.Writer) Exit {
	fmt.Fprintf(out, "Failed to launch: %v.\r\n", u.err)
	return Exit{Status: 255}
}

func (unlaunched) Resize(uint32, uint32) {}
func (unlaunched) Signal(string)         {}
func (unlaunched) Kill()                 {}
