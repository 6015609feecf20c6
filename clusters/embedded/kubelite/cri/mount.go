package cri

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes of the mounts every container gets.
const (
	attrNoDev   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attrKernel  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	attrTty     = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	maxMountArg = 4095 // mount(2) takes one page of options, NUL included
)

// checkKernel says what the kernel lacks. All the calls below are in 5.12, of
// April 2021; openat2 in 5.6 and setns on a pidfd in 5.8 come with it.
func checkKernel() error {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if errors.Is(err, unix.ENOSYS) {
		return errors.New("the kernel has no mount_setattr: Linux 5.12 or newer is needed")
	}
	return nil
}

// cloneTree copies the mounts at and below source into a tree that is not yet
// anywhere; the caller moves or closes it.
func cloneTree(source string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, &os.PathError{Op: "bind", Path: source, Err: err}
	}
	return fd, nil
}

// newFS makes a file system with key=value options, mounted nowhere yet.
func newFS(fstype string, attr int, options ...string) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("new %s: %w", fstype, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return -1, fmt.Errorf("new %s with %s: %w", fstype, o, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("new %s: %w", fstype, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", fstype, err)
	}
	return fd, nil
}

func setAttr(fd int, recursive bool, attr unix.MountAttr) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(fd, "", flags, &attr); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	return nil
}

// place moves a tree onto a target descriptor and closes both.
func place(tree, target int) error {
	defer unix.Close(tree)
	defer unix.Close(target)
	err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// placeAt moves a tree onto a directory of the root, which is made if missing.
func (r root) placeAt(tree int, dir string) error {
	target, err := r.mkdirAll(dir)
	if err != nil {
		unix.Close(tree)
		return err
	}
	if err := place(tree, target); err != nil {
		return fmt.Errorf("mount on %s: %w", dir, err)
	}
	return nil
}

// mountFS mounts a new file system on a directory of the root.
func (r root) mountFS(dir, fstype string, attr int, options ...string) error {
	tree, err := newFS(fstype, attr, options...)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return r.placeAt(tree, dir)
}

// bind mounts source, a directory or file of the node, on name in the root.
func (r root) bind(source, name string) error {
	tree, err := cloneTree(source)
	if err != nil {
		return err
	}
	return r.placeLike(tree, name)
}

// placeLike moves a tree onto name, made if missing as what the tree is: a
// directory or a file.
func (r root) placeLike(tree int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		unix.Close(tree)
		return os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return r.placeAt(tree, name)
	}
	target, err := r.touch(name)
	if err != nil {
		unix.Close(tree)
		return err
	}
	if err := place(tree, target); err != nil {
		return fmt.Errorf("mount on %s: %w", name, err)
	}
	return nil
}
