package cri

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procStat is what is needed of /proc/PID/stat, proc_pid_stat(5).
type procStat struct {
	state          byte
	ppid           int
	ticks          uint64 // user and system time, also of children waited for
	residentPages  uint64
	virtualBytes   uint64
	minflt, majflt uint64
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (procStat, error) {
	// The name, in parentheses, may contain anything.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("proc stat %q", b)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 22 {
		return procStat{}, fmt.Errorf("proc stat %q: %d fields", b, len(f))
	}
	n := func(i int) uint64 { // i is the field's number in the manual page
		v, _ := strconv.ParseUint(f[i-3], 10, 64)
		return v
	}
	return procStat{
		state: f[0][0], ppid: int(n(4)), ticks: n(14) + n(15) + n(16) + n(17),
		minflt: n(10), majflt: n(12), virtualBytes: n(23), residentPages: n(24),
	}, nil
}

// pids lists the processes visible in /proc.
func pids() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// inMountNS lists the processes of a mount namespace, that is, of a container.
func inMountNS(inode uint64) []int {
	var out []int
	for _, pid := range pids() {
		if ino, err := mountNSOf(pid); err == nil && ino == inode {
			out = append(out, pid)
		}
	}
	return out
}

// killByMountNS kills until none is left, for they may fork meanwhile.
func killByMountNS(inode uint64) {
	for range 100 {
		left := 0
		for _, pid := range inMountNS(inode) {
			if unix.Kill(pid, unix.SIGKILL) == nil {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
}

// descendants lists pid's children, theirs, and so on.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range pids() {
		if st, err := readStat(p); err == nil {
			children[st.ppid] = append(children[st.ppid], p)
		}
	}
	var out []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		out = append(out, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return out
}

// reapSeen waits for the zombie children of self that were zombies already the
// last time and are not someone's own, and returns those that are now.
func reapSeen(self int, before map[int]bool, owned func(pid int) bool) map[int]bool {
	now := map[int]bool{}
	for _, pid := range pids() {
		st, err := readStat(pid)
		if err != nil || st.ppid != self || st.state != 'Z' || owned(pid) {
			continue
		}
		if before[pid] {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
			continue
		}
		now[pid] = true
	}
	return now
}
