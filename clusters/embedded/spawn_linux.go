package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"shakedown.dev/shakedown/clusters"
)

// Spawn has kubelite start the command in the cluster's network. Its life hangs on the connection.
func (c *Cluster) Spawn(ctx context.Context, cmd clusters.Command) (int, error) {
	request, err := spawnRequest(cmd)
	if err != nil {
		return 0, err
	}
	if cmd.TTY {
		return c.spawnTTY(ctx, cmd, request)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr}
	for i := range files {
		if files[i] == nil {
			files[i] = null
		}
	}
	return c.spawn(ctx, request, files...)
}

// Oversees is nil: the cluster's first process and its nodes share a PID namespace.
func (c *Cluster) Oversees() error { return nil }

func spawnRequest(cmd clusters.Command) (Request, error) {
	if len(cmd.Argv) == 0 {
		return Request{}, errors.New("spawn: no command")
	}
	r := Request{Op: OpSpawn, Argv: cmd.Argv, Env: cmd.Env, TTY: cmd.TTY, Dir: cmd.Dir}
	if r.Env == nil {
		r.Env = os.Environ()
	}
	if r.Dir != "" {
		return r, nil
	}
	var err error
	r.Dir, err = os.Getwd()
	return r, err
}

func (c *Cluster) spawn(ctx context.Context, request Request, files ...*os.File) (int, error) {
	w, err := dialWire(ctx, c.socket, c.uid)
	if err != nil {
		return 0, c.explain(err)
	}
	defer w.Close()
	stop := w.until(ctx)
	defer stop()
	if err := w.send(request, files...); err != nil {
		return 0, ended(ctx, err)
	}
	for {
		var answer Response
		if err := w.receive(&answer); err != nil {
			return 0, &clusters.NameError{Name: c.name, Err: ended(ctx, err)}
		}
		if err := answer.err(OpSpawn); err != nil {
			return 0, err
		}
		if answer.Exit != nil {
			return *answer.Exit, nil
		}
	}
}

// spawnTTY gives the command a pseudo-terminal and copies between it and the terminal of cmd.
func (c *Cluster) spawnTTY(ctx context.Context, cmd clusters.Command, request Request) (int, error) {
	master, slave, err := openPTY()
	if err != nil {
		return 0, fmt.Errorf("pseudo-terminal: %w", err)
	}
	defer master.Close()
	fd := int(cmd.Stdin.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("standard input: %w", err), slave.Close())
	}
	defer term.Restore(fd, state)
	defer followSize(cmd.Stdin, master)()
	// Reading the terminal cannot be interrupted; the copy ends with the process.
	go io.Copy(master, cmd.Stdin)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		// EIO is how a pty says that its last user has gone.
		_, _ = io.Copy(cmd.Stdout, master)
	}()
	code, err := c.spawn(ctx, request, slave)
	// While our own copy of the slave was open, the master could not end.
	slave.Close()
	select {
	case <-copied:
	case <-time.After(time.Second): // a background process of the command may hold its terminal for ever
	}
	return code, err
}

// followSize keeps the size of the pty that of the terminal until the returned function is called.
func followSize(terminal, master *os.File) (stop func()) {
	resize := func() {
		if size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)
		}
	}
	resize()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			resize()
		}
	}()
	return func() { signal.Stop(changed); close(changed) }
}

// openPTY opens a new pair as pty(7) describes.
func openPTY() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
