package embedded

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ControlName is the abstract unix socket of a cluster, "@" standing for the NUL byte as in net.UnixAddr.
// Who binds it owns the name: the kernel gives it out once per network namespace and takes it back with
// the process, so that there is no lock file to go stale.
func ControlName(uid int, name string) string { return controlPrefix(uid) + name }

func controlPrefix(uid int) string { return "@shakedown/cluster/" + strconv.Itoa(uid) + "/" }

// acceptsConnections is __SO_ACCEPTCON, the flag of a listening socket in /proc/net/unix.
const acceptsConnections = 0x10000

// controlNames reads the names of uid's clusters out of /proc/net/unix, whose columns are
// Num RefCount Protocol Flags Type St Inode Path (proc_net_unix in the kernel's af_unix.c).
func controlNames(r io.Reader, uid int) ([]string, error) {
	var names []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 8 {
			continue
		}
		name, ours := strings.CutPrefix(columns[7], controlPrefix(uid))
		flags, err := strconv.ParseUint(columns[3], 16, 64)
		// Connections that were accepted carry the name of their listener.
		if !ours || err != nil || flags&acceptsConnections == 0 {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), lines.Err()
}
