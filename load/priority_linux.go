package load

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// precedence is the nice value of a generator that shares its machine with the system under test. It asks for little,
// but at moments that are given: what begins late because a proxy was computing would look like a slow proxy. With -10
// instead, three runs beside compilers on both cores were 5.7, 7.3 and 79 ms late at p99, where -20 was 5.1, 5.6 and 4.4.
const precedence = -20

// groupPrecedence is that of the session's group, which is also that of whatever else runs in the session: with -20, tests
// beside a run took the processors from all of a cluster's containers, and not one session opened.
const groupPrecedence = -10

// autogroup is where Linux keeps the nice value of all that a terminal session runs, where it groups by session:
// there a process's own value counts only against the others of its session.
const autogroup = "/proc/self/autogroup"

// prioritise puts this process before the others of the machine, and gives what undoes it. The error says why it
// could not, commonly for want of privilege. Nothing of it outlives the session that the process belongs to.
func prioritise() (restore func(), err error) {
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return nil, err
	}
	own = 20 - own // the system call gives 40 to 1
	if own <= precedence {
		return func() {}, nil
	}
	if err := niceAll(precedence); err != nil {
		return nil, fmt.Errorf("nice %d: %w", precedence, errors.Join(err, niceAll(own)))
	}
	before, grouped := sessionNice()
	if grouped {
		grouped = os.WriteFile(autogroup, []byte(strconv.Itoa(groupPrecedence)), 0o600) == nil
	}
	return func() {
		_ = niceAll(own) // giving way is always allowed
		if grouped {
			_ = os.WriteFile(autogroup, []byte(strconv.Itoa(before)), 0o600)
		}
	}, nil
}

// niceAll sets the nice value of every thread; those to come have their maker's.
func niceAll(nice int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// sessionNice is the nice value of the session; false where Linux does not group by session.
func sessionNice() (int, bool) {
	text, err := os.ReadFile(autogroup)
	if err != nil {
		return 0, false
	}
	_, value, found := strings.Cut(strings.TrimSpace(string(text)), " nice ")
	nice, err := strconv.Atoi(value)
	return nice, found && err == nil
}
