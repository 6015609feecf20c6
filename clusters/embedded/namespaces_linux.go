package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

const useKind = "use --cluster kind (with Docker) or --cluster existing (with a kubeconfig)"

// isolate sets the namespaces of a new process. As anybody but a full root it gets a user namespace too,
// in which it has all capabilities and, until mapIDs, no identity.
func isolate(attr *syscall.SysProcAttr) (userNS bool) {
	attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if _, err := os.Stat("/proc/self/ns/cgroup"); err == nil {
		attr.Cloneflags |= unix.CLONE_NEWCGROUP
	}
	if os.Geteuid() == 0 && hasCapability(unix.CAP_SYS_ADMIN) {
		return false
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	// Without an id map the new program is not root, and would lose its capabilities with exec.
	for c := range uintptr(lastCapability() + 1) {
		attr.AmbientCaps = append(attr.AmbientCaps, c)
	}
	return true
}

// explainClone says what a refused clone(2) means to the user.
func explainClone(err error, userNS bool) error {
	switch {
	case errors.Is(err, syscall.EPERM) && userNS:
		return exit.Hint(fmt.Errorf("%w: ordinary users may not create user namespaces here", clusters.ErrUnsupported),
			"run as root, or allow it: "+userNamespaceSwitch()+"; or "+useKind)
	case errors.Is(err, syscall.EPERM):
		return exit.Hint(fmt.Errorf("%w: this root may not create namespaces", clusters.ErrUnsupported), useKind)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Hint(errors.New("the limit of namespaces is reached"), "raise the sysctl user.max_*_namespaces, or end other containers")
	case errors.Is(err, syscall.EINVAL):
		return exit.Hint(fmt.Errorf("%w: the kernel lacks a namespace type", clusters.ErrUnsupported), "see shakedown doctor; "+useKind)
	}
	return fmt.Errorf("start kubelite init: %w", err)
}

// userNamespaceSwitch is the sysctl that forbids user namespaces, as far as it can be told.
func userNamespaceSwitch() string {
	for _, s := range []struct{ path, bad, set string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	} {
		if text, err := os.ReadFile(s.path); err == nil && strings.TrimSpace(string(text)) == s.bad {
			return s.set
		}
	}
	return "sysctl user.max_user_namespaces=10000"
}

// idRange is one line of an id map: Count ids from Inside on are Outside and following.
type idRange struct{ Inside, Outside, Count int64 }

func (r idRange) String() string { return fmt.Sprintf("%d %d %d", r.Inside, r.Outside, r.Count) }

// mapIDs gives the user namespace of pid its ids: root keeps those it has; a user becomes root inside,
// with the ranges of /etc/subuid and /etc/subgid behind it where newuidmap can set them.
func mapIDs(pid int) error {
	uid, gid := int64(os.Geteuid()), int64(os.Getegid())
	if uid == 0 {
		return errors.Join(writeIdentity(pid, "uid_map"), writeIdentity(pid, "gid_map"))
	}
	if !mapRange(pid, "newgidmap", "/etc/subgid", gid) {
		// The kernel wants this first: setgroups would let go of a group that denies something.
		if err := writeProc(pid, "setgroups", "deny"); err != nil {
			return err
		}
		if err := writeProc(pid, "gid_map", idRange{0, gid, 1}.String()); err != nil {
			return err
		}
	}
	if mapRange(pid, "newuidmap", "/etc/subuid", uid) {
		return nil
	}
	return writeProc(pid, "uid_map", idRange{0, uid, 1}.String())
}

// mapRange reports whether the setuid program gave pid the range that file delegates to this user.
func mapRange(pid int, program, file string, id int64) bool {
	path, err := exec.LookPath(program)
	if err != nil {
		return false
	}
	start, count, ok := subIDRange(file)
	if !ok {
		return false
	}
	arg := func(n int64) string { return strconv.FormatInt(n, 10) }
	return exec.Command(path, strconv.Itoa(pid), "0", arg(id), "1", "1", arg(start), arg(count)).Run() == nil
}

// subIDRange is what /etc/subuid or /etc/subgid delegates to this user.
func subIDRange(file string) (start, count int64, ok bool) {
	ids, err := os.Open(file)
	if err != nil {
		return 0, 0, false
	}
	defer ids.Close()
	return subIDs(bufio.NewScanner(ids), userNames())
}

// subIDs finds the first range of any of the names in subuid(5) lines: name:start:count.
func subIDs(lines *bufio.Scanner, names []string) (start, count int64, ok bool) {
	for lines.Scan() {
		columns := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(columns) != 3 {
			continue
		}
		for _, name := range names {
			start, errStart := strconv.ParseInt(columns[1], 10, 64)
			count, errCount := strconv.ParseInt(columns[2], 10, 64)
			if columns[0] == name && errStart == nil && errCount == nil && count > 0 {
				return start, count, true
			}
		}
	}
	return 0, 0, false
}

func userNames() []string {
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.Current(); err == nil {
		names = append(names, u.Username)
	}
	return names
}

// writeIdentity maps every id that this namespace has to itself.
func writeIdentity(pid int, file string) error {
	own, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(own)) {
		var r idRange
		if _, err := fmt.Sscan(line, &r.Inside, &r.Outside, &r.Count); err != nil {
			return fmt.Errorf("read /proc/self/%s: %w", file, err)
		}
		fmt.Fprintln(&out, idRange{r.Inside, r.Inside, r.Count})
	}
	return writeProc(pid, file, out.String())
}

func writeProc(pid int, file, text string) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), []byte(text), 0)
	if err != nil {
		return exit.Hint(fmt.Errorf("id map of the user namespace: %w", err), "install uidmap and give this user a line in /etc/subuid and /etc/subgid; or run as root")
	}
	return nil
}

func lastCapability() int {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return unix.CAP_LAST_CAP
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return unix.CAP_LAST_CAP
	}
	return n
}

func hasCapability(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
