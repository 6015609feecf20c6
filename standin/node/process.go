package node

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/standin/sshutil"
)

// copyTimeout is how long the real node waits for the rest of the output after the program ended.
const copyTimeout = 5 * time.Second

// signals are those that SSH names (RFC 4254, 6.10).
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"ABRT": unix.SIGABRT, "ALRM": unix.SIGALRM, "FPE": unix.SIGFPE, "HUP": unix.SIGHUP, "ILL": unix.SIGILL,
		"INT": unix.SIGINT, "KILL": unix.SIGKILL, "PIPE": unix.SIGPIPE, "QUIT": unix.SIGQUIT, "SEGV": unix.SIGSEGV,
		"TERM": unix.SIGTERM, "USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2,
	}
}

func signalName(sig syscall.Signal) string {
	for name, s := range signals() {
		if s == sig {
			return name
		}
	}
	return "TERM"
}

// signalGroup signals a program and its children; each program leads a process group of its own.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if err := unix.Kill(-cmd.Process.Pid, sig); err != nil {
		cmd.Process.Signal(sig)
	}
}

// terminal is a process on a pseudo-terminal.
type terminal struct {
	cmd    *exec.Cmd
	master *os.File
}

func startTerminal(cmd *exec.Cmd, p *PTY) (Program, error) {
	master, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	pty.Setsize(master, &pty.Winsize{Cols: uint16(p.Width), Rows: uint16(p.Height)})
	setModes(tty, p.Modes)
	cmd.Env = append(cmd.Env, "SSH_TTY="+tty.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr.Setctty = true
	if cmd.SysProcAttr.Credential != nil {
		tty.Chown(int(cmd.SysProcAttr.Credential.Uid), int(cmd.SysProcAttr.Credential.Gid))
	}
	if err := cmd.Start(); err != nil {
		master.Close()
		return nil, err
	}
	return &terminal{cmd: cmd, master: master}, nil
}

func (t *terminal) Run(in io.Reader, out, _ io.Writer) Exit {
	buffers := sshutil.NewBuffers()
	go buffers.Copy(t.master, in)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		// A client that is gone ends the program. That reading fails does not: nobody holds the terminal any more, as
		// when a program closes its output before it exits, and Linux calls that an error and not the end.
		client := &noting{Writer: out}
		if buffers.Copy(client, t.master); client.failed && t.alive() {
			t.Kill()
		}
	}()
	exit := exitOf(t.cmd.Wait())
	select {
	case <-copied:
	case <-time.After(copyTimeout):
	}
	t.master.Close()
	return exit
}

// noting remembers that writing has failed.
type noting struct {
	io.Writer
	failed bool
}

func (w *noting) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// alive reports whether the process was not yet waited for and has not ended.
func (t *terminal) alive() bool { return unix.Kill(t.cmd.Process.Pid, 0) == nil }

func (t *terminal) Resize(width, height uint32) {
	pty.Setsize(t.master, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
}

func (t *terminal) Signal(name string) {
	if sig, ok := signals()[name]; ok {
		signalGroup(t.cmd, sig)
	}
}

// Kill hangs the terminal up and kills what does not leave.
func (t *terminal) Kill() {
	signalGroup(t.cmd, unix.SIGHUP)
	time.AfterFunc(time.Second, func() { signalGroup(t.cmd, unix.SIGKILL) })
}

// piped is a process without a terminal.
type piped struct {
	cmd         *exec.Cmd
	stdin       io.WriteCloser
	stdout, err *os.File
}

func startPiped(cmd *exec.Cmd) (Program, error) {
	p := &piped{cmd: cmd}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	outWriter, err := p.pipes()
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	for _, w := range outWriter {
		w.Close()
	}
	if err != nil {
		p.stdout.Close()
		p.err.Close()
		return nil, err
	}
	return p, nil
}

// pipes connects stdout and stderr by pipes that Wait does not close under a reader.
func (p *piped) pipes() ([]*os.File, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return nil, err
	}
	p.stdout, p.err, p.cmd.Stdout, p.cmd.Stderr = outR, errR, outW, errW
	return []*os.File{outW, errW}, nil
}

func (p *piped) Run(in io.Reader, out, errs io.Writer) Exit {
	buffers := sshutil.NewBuffers()
	go func() {
		buffers.Copy(p.stdin, in)
		p.stdin.Close()
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		var wg sync.WaitGroup
		wg.Go(func() { buffers.Copy(errs, p.err) })
		buffers.Copy(out, p.stdout)
		wg.Wait()
	}()
	exit := exitOf(p.cmd.Wait())
	select {
	case <-copied:
	case <-time.After(copyTimeout):
	}
	p.stdout.Close()
	p.err.Close()
	return exit
}

func (*piped) Resize(uint32, uint32) {}

func (p *piped) Signal(name string) {
	if sig, ok := signals()[name]; ok {
		signalGroup(p.cmd, sig)
	}
}

func (p *piped) Kill() { signalGroup(p.cmd, unix.SIGKILL) }
