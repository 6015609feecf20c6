package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// standardDevices are the nodes that the OCI runtime specification requires.
var standardDevices = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

var deviceLinks = []struct{ name, target string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
}

// mountDev gives the container a /dev of its own; shm is shared by its pod.
func (r root) mountDev(shm string) error {
	if err := r.mountFS("/dev", "tmpfs", unix.MOUNT_ATTR_NOSUID, "mode=0755", "size=64k"); err != nil {
		return err
	}
	for _, d := range standardDevices {
		if err := r.device("/dev/"+d.name, "/dev/"+d.name, unix.S_IFCHR|0o666, unix.Mkdev(d.major, d.minor)); err != nil {
			return err
		}
	}
	dev, err := r.open("/dev", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, l := range deviceLinks {
		if err := unix.Symlinkat(l.target, dev, l.name); err != nil {
			return &os.PathError{Op: "symlink", Path: "/dev/" + l.name, Err: err}
		}
	}
	if err := r.mountPts(); err != nil {
		return err
	}
	if err := r.bind(shm, "/dev/shm"); err != nil {
		return err
	}
	// Refused where the IPC namespace belongs to someone else's user namespace;
	// message queues are then absent.
	if err := r.mountFS("/dev/mqueue", "mqueue", attrKernel); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

// mountPts gives terminals to group 5, tty everywhere, unless that group has no
// mapping in the user namespace.
func (r root) mountPts() error {
	err := r.mountFS("/dev/pts", "devpts", attrTty, "ptmxmode=0666", "mode=0620", "gid=5")
	if errors.Is(err, unix.EINVAL) {
		err = r.mountFS("/dev/pts", "devpts", attrTty, "ptmxmode=0666", "mode=0620")
	}
	return err
}

// device makes a node or, where making one is not permitted, binds the node's.
func (r root) device(name, host string, mode uint32, dev uint64) error {
	parent, err := r.mkdirAll(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	err = unix.Mknodat(parent, path.Base(name), mode, int(dev))
	switch {
	case err == nil, errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.EPERM):
		return r.bind(host, name)
	}
	return &os.PathError{Op: "mknod", Path: name, Err: err}
}

// hostDevices gives a device of the node, or all below a directory, as the pod
// asked for them.
func (r root) hostDevices(host, name string) error {
	return filepath.WalkDir(host, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			if p == host {
				return fmt.Errorf("device: %w", err)
			}
			return nil
		}
		if e.Type()&os.ModeDevice == 0 {
			return nil
		}
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return nil // gone meanwhile
		}
		return r.device(path.Join(name, strings.TrimPrefix(p, host)), p, st.Mode, st.Rdev)
	})
}

// allDevices is a privileged container's /dev.
func (r root) allDevices() error {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "pts", "shm", "mqueue", "console":
			continue
		}
		if e.Type()&os.ModeDevice == 0 && !e.IsDir() {
			continue
		}
		if err := r.hostDevices("/dev/"+e.Name(), "/dev/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}
