package load

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"shakedown.dev/shakedown/scenarios"
)

// spareFiles is what the rest of the program needs besides sessions: watches, canaries, history, openings that fail.
const spareFiles = 256

// perSession is what a held session costs this program, in bytes: docs/performance.md.
const perSession = 100 << 10

// Room is how many sessions this machine lets one process hold. 0: it does not tell.
type Room struct {
	Files  int // by descriptors, one a session
	Ports  int // by local ports, for each proxy and source address
	Memory int // by memory that is free now, nothing left to the system under test
}

// LookRoom looks at the machine.
func LookRoom() Room {
	r := Room{Ports: localPorts(), Memory: freeMemory() / perSession}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		r.Files = int(min(files.Cur, math.MaxInt32)) - spareFiles
	}
	return r
}

// Sessions is the least of them: how many sessions through one proxy.
func (r Room) Sessions() int {
	least := math.MaxInt
	for _, n := range []int{r.Files, r.Ports, r.Memory} {
		if n > 0 {
			least = min(least, n)
		}
	}
	return least
}

// Prepare makes room for the plan's sessions as far as this process may: it raises its limit of open files. The
// error lists what is too low even so; then nothing should be begun.
func Prepare(p *scenarios.Plan) error {
	var files syscall.Rlimit
	need := uint64(connections(p) + spareFiles)
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < need {
		files.Cur = need
		files.Max = max(files.Max, need)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // what it came to is looked at next
	}
	return errors.Join(Limits(p)...)
}

// Limits says which limits of this machine are too low to hold the plan's sessions; nil: none is. Each connection
// takes one descriptor, and one local port for each proxy.
func Limits(p *scenarios.Plan) []error { return LookRoom().limits(connections(p)) }

func (r Room) limits(held int) []error {
	var errs []error
	if r.Files > 0 && held > r.Files {
		errs = append(errs, fmt.Errorf("%d connections need %d open files, the limit is %d: raise it with ulimit -n", held, held+spareFiles, r.Files+spareFiles))
	}
	if r.Ports > 0 && held > r.Ports {
		errs = append(errs, fmt.Errorf("%d connections, if all went through one proxy, need more local ports than the %d of net.ipv4.ip_local_port_range: widen it with sysctl", held, r.Ports))
	}
	if r.Memory > 0 && held > r.Memory {
		errs = append(errs, fmt.Errorf("%d connections need about %d MiB, %d are free", held, held*perSession>>20, r.Memory*perSession>>20))
	}
	return errs
}

// connections is how many are open at once, as planned.
func connections(p *scenarios.Plan) (held int) {
	for _, s := range p.Streams {
		held += s.Connections()
	}
	return held
}

// localPorts is how many ports a connection may come from; 0 where the system does not tell.
func localPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0
	}
	from, _ := strconv.Atoi(fields[0])
	to, _ := strconv.Atoi(fields[1])
	return to - from + 1
}

// freeMemory is what programs can still have, in bytes; 0 where the system does not tell.
func freeMemory() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
