package cri

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipeToChild returns a pipe whose read end, a plain blocking descriptor, is for
// a child, and whose write end waits in the poller.
func pipeToChild() (child int, parent *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe2", err)
	}
	unix.SetNonblock(p[1], true)
	return p[0], os.NewFile(uintptr(p[1]), "pipe"), nil
}

// pipeFromChild is the other direction.
func pipeFromChild() (parent *os.File, child int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	unix.SetNonblock(p[0], true)
	return os.NewFile(uintptr(p[0]), "pipe"), p[1], nil
}

// openTerminal makes a terminal in the devpts that the calling thread sees at
// ptmx. The peer is taken from the master, not by name, so that no path of the
// container is trusted.
func openTerminal(ptmx string) (master *os.File, child int, err error) {
	fd, err := unix.Open(ptmx, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("open a terminal: %w", &os.PathError{Op: "open", Path: ptmx, Err: err})
	}
	master = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, -1, os.NewSyscallError("unlock the terminal", err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		master.Close()
		return nil, -1, os.NewSyscallError("open the terminal's other end", errno)
	}
	return master, int(peer), nil
}

// resizeTerminal sets the window; a terminal already closed is no error worth
// telling anyone.
func resizeTerminal(master *os.File, width, height uint16) {
	conn, err := master.SyscallConn()
	if err != nil {
		return
	}
	conn.Control(func(fd uintptr) {
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	})
}
