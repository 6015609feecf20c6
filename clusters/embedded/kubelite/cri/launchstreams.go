package cri

import (
	"os"

	"golang.org/x/sys/unix"
)

// openStreams makes the container's standard streams. The terminal is one of the
// container's own.
func (l *launch) openStreams(root root) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	l.child = stdio{in: null, out: -1, err: -1}
	if l.c.cfg.GetTty() {
		return l.openTerminal(root)
	}
	if l.c.cfg.GetStdin() {
		unix.Close(null)
		if l.child.in, l.run.io.stdin, err = pipeToChild(); err != nil {
			return err
		}
	}
	if l.stdout, l.child.out, err = pipeFromChild(); err != nil {
		return err
	}
	l.stderr, l.child.err, err = pipeFromChild()
	return err
}

func (l *launch) openTerminal(root root) error {
	unix.Close(l.child.in)
	l.child.in = -1
	master, peer, err := openTerminal(l.c.rootDir() + "/dev/pts/ptmx")
	if err != nil {
		return err
	}
	l.stdout, l.run.io.terminal = master, master
	l.child = stdio{in: peer, out: peer, err: peer, tty: true}
	if l.c.cfg.GetStdin() {
		l.run.io.stdin = master
	}
	// The console is the terminal under its other name.
	tree, err := unix.OpenTree(peer, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return os.NewSyscallError("bind /dev/console", err)
	}
	return root.placeLike(tree, "/dev/console")
}

func (l *launch) closeChildEnds() {
	closed := map[int]bool{-1: true, 0: true}
	for _, fd := range []int{l.child.in, l.child.out, l.child.err} {
		if !closed[fd] {
			unix.Close(fd)
			closed[fd] = true
		}
	}
}
