package boot

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reapOrphans collects processes that were left to PID 1. os/exec waits for the
// supervisor's own children by id, so only children it did not start are taken.
// A zombie is taken at its second sight: at the first its starter may not have
// written it down yet.
func (v *supervisor) reapOrphans() {
	seen := map[int]bool{}
	for range time.Tick(2 * time.Second) {
		now := map[int]bool{}
		for _, pid := range zombies() {
			if v.owns(pid) {
				continue
			}
			now[pid] = true
			if seen[pid] {
				var ws syscall.WaitStatus
				_, _ = syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
			}
		}
		seen = now
	}
}

// owns says whether somebody in this process waits for pid.
func (v *supervisor) owns(pid int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.procs {
		if p.pid == pid {
			return true
		}
	}
	return v.guests[pid]
}

// zombies lists the dead children of this process that nobody waited for.
func zombies() []int {
	self := os.Getpid()
	var out []int
	for _, pid := range allPIDs() {
		if st, ok := readStat(pid); ok && st.state == 'Z' && st.parent == self {
			out = append(out, pid)
		}
	}
	return out
}

type procStat struct {
	state  byte
	parent int
}

// readStat reads /proc/PID/stat; the name in it may hold spaces and brackets.
func readStat(pid int) (procStat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, false
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return procStat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return procStat{fields[0][0], parent}, err == nil
}

func allPIDs() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
