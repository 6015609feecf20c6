package load

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// latePort has the system choose the local port when both ends are known (IP_BIND_ADDRESS_NO_PORT, ip(7)): chosen at
// bind it would be taken from all destinations alike.
func latePort(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) // older kernels do without
	})
}
