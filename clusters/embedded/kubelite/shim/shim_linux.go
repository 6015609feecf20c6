package shim

import "syscall"

// Numbers of linux/prctl.h and sched.h that package syscall does not name.
const (
	prCapBSetDrop     = 24
	prSetNoNewPrivs   = 38
	prCapAmbient      = 47
	prCapAmbientClear = 4
	cloneNewCgroup    = 0x02000000
)

// init turns the process into the shim when it is called by that name; see the
// package comment for why this cannot wait for main.
func init() {
	if calledAsShim() {
		run()
	}
}

func calledAsShim() bool {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	var b [len(Arg0) + 1]byte
	n, _ := syscall.Read(fd, b[:])
	return n == len(b) && string(b[:len(Arg0)]) == Arg0 && b[len(Arg0)] == 0
}

// run never returns.
func run() {
	syscall.CloseOnExec(StatusFD)
	spec, err := readSpec()
	if err != nil {
		die("read the container's specification", err)
	}
	if spec.Pause {
		pause()
	}
	if what, err := spec.setUp(); err != nil {
		die(what, err)
	}
	die("exec "+spec.Path, syscall.Exec(spec.Path, spec.Argv, spec.Env))
}

func readSpec() (*Spec, error) {
	defer syscall.Close(SpecFD)
	b := make([]byte, 0, 16<<10)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := syscall.Read(SpecFD, b[len(b):cap(b)])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return Decode(b)
		}
		b = b[:len(b)+n]
	}
}

func die(what string, err error) {
	syscall.Write(StatusFD, []byte(what+": "+err.Error()))
	syscall.Exit(127)
}

// setUp does everything up to execve and names the step that did not succeed.
func (s *Spec) setUp() (string, error) {
	steps := []struct {
		what string
		do   func() error
	}{
		{"mount /proc", s.mountProc},
		{"mount /sys/fs/cgroup", s.mountCgroups},
		{"mask paths", s.maskPaths},
		{"make paths read-only", s.readOnlyPaths},
		{"change the root", changeRoot},
		{"drop capabilities", s.dropCapabilities},
		{"become the user", s.becomeUser},
		{"chdir to " + s.Dir, s.enterDir},
		{"set no_new_privs", s.noNewPrivs},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return step.what, err
		}
	}
	return "", nil
}

func (s *Spec) mountProc() error {
	if s.Proc {
		err := syscall.Mount("proc", "proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
		if err != nil {
			return err
		}
	}
	if s.OOMScoreAdj > 0 {
		// Raising needs no capability; where it is refused all the same, the
		// program is merely a less likely victim.
		if fd, err := syscall.Open("proc/self/oom_score_adj", syscall.O_WRONLY|syscall.O_CLOEXEC, 0); err == nil {
			syscall.Write(fd, []byte(utoa(uint64(s.OOMScoreAdj))))
			syscall.Close(fd)
		}
	}
	return nil
}

// mountCgroups shows the program its own cgroup as the root of the hierarchy.
// What it sees is information only: a refusal leaves the directory empty.
func (s *Spec) mountCgroups() error {
	if len(s.Cgroups) == 0 || syscall.Unshare(cloneNewCgroup) != nil {
		return nil
	}
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC | syscall.MS_RDONLY
	for _, c := range s.Cgroups {
		if c == "" {
			syscall.Mount("cgroup", "sys/fs/cgroup", "cgroup2", flags, "")
		} else {
			syscall.Mount("cgroup", "sys/fs/cgroup/"+c, "cgroup", flags, c)
		}
	}
	return nil
}

func (s *Spec) maskPaths() error {
	for _, path := range s.Masked {
		err := syscall.Mount("/dev/null", path[1:], "", syscall.MS_BIND, "")
		if err == syscall.ENOTDIR {
			err = syscall.Mount("tmpfs", path[1:], "tmpfs", syscall.MS_RDONLY, "size=0k")
		}
		if err != nil && err != syscall.ENOENT {
			return err
		}
	}
	return nil
}

func (s *Spec) readOnlyPaths() error {
	const flags = syscall.MS_BIND | syscall.MS_REC | syscall.MS_REMOUNT | syscall.MS_RDONLY |
		syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	for _, path := range s.ReadOnly {
		rel := path[1:]
		err := syscall.Mount(rel, rel, "", syscall.MS_BIND|syscall.MS_REC, "")
		if err == syscall.ENOENT {
			continue
		}
		if err == nil {
			err = syscall.Mount(rel, rel, "", flags, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changeRoot stacks the new root over the old one and detaches what is below.
func changeRoot() error {
	if err := syscall.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return err
	}
	return syscall.Chdir("/")
}

// dropCapabilities narrows the bounding set, which is what execve grants from:
// the sets in force are still needed to become the user.
func (s *Spec) dropCapabilities() error {
	prctl(prCapAmbient, prCapAmbientClear, 0)
	for c := uintptr(0); c < 64; c++ {
		if s.Bounding&(1<<c) != 0 {
			continue
		}
		switch err := prctl(prCapBSetDrop, c, 0); err {
		case nil:
		case syscall.EINVAL: // past the last capability this kernel knows
			return nil
		default:
			return err
		}
	}
	return nil
}

// becomeUser uses raw calls: package syscall's would change every thread, and
// only this one survives execve.
func (s *Spec) becomeUser() error {
	syscall.Umask(0o022)
	if err := setGroups(s.Groups); err != nil && (err != syscall.EPERM || len(s.Groups) > 0) {
		return err
	}
	if s.GID != uint32(syscall.Getgid()) {
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(s.GID), uintptr(s.GID), uintptr(s.GID)); e != 0 {
			return e
		}
	}
	// The directory may be open to root only, or (a root without DAC override)
	// to the user only: enterDir tries again as the user.
	s.inDir = syscall.Chdir(s.Dir) == nil
	if s.UID != uint32(syscall.Getuid()) {
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(s.UID), uintptr(s.UID), uintptr(s.UID)); e != 0 {
			return e
		}
	}
	return nil
}

func (s *Spec) enterDir() error {
	if s.inDir {
		return nil
	}
	return syscall.Chdir(s.Dir)
}

func (s *Spec) noNewPrivs() error {
	if !s.NoNewPrivs {
		return nil
	}
	return prctl(prSetNoNewPrivs, 1, 0)
}

// pause reaps the orphans of a pod's PID namespace until it is killed.
func pause() {
	for fd := 0; fd <= StatusFD; fd++ {
		syscall.Close(fd)
	}
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil && pid > 0 {
			continue
		}
		// A second: how long a zombie lasts if SIGCHLD came just before the sleep.
		syscall.Nanosleep(&syscall.Timespec{Sec: 1}, nil)
	}
}

func prctl(option, arg2, arg3 uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, arg2, arg3, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
