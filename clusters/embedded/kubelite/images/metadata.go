package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerXattr holds "uid:gid:mode" where the owner itself could not be set; the
// name and form are those of github.com/containers/storage.
const ownerXattr = "user.containers.override_stat"

// metadata sets the owner, xattrs, mode and times of an entry, in this order: a
// change of owner clears set-uid bits and capabilities, and an xattr needs the
// write permission that the mode may take away.
func (u *untarrer) metadata(name string, h *tar.Header) error {
	if err := u.owner(name, h); err != nil {
		return err
	}
	if err := u.xattrs(name, h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return u.linkTimes(name, h)
	}
	if err := u.root.Chmod(name, h.FileInfo().Mode()); err != nil {
		return err
	}
	return u.times(name, h)
}

func (u *untarrer) times(name string, h *tar.Header) error {
	if h.ModTime.IsZero() {
		return nil
	}
	at := h.AccessTime
	if at.IsZero() {
		at = h.ModTime
	}
	return u.root.Chtimes(name, at, h.ModTime)
}

func (u *untarrer) linkTimes(name string, h *tar.Header) error {
	parent, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	m := unix.NsecToTimespec(h.ModTime.UnixNano())
	return unix.UtimesNanoAt(int(parent.Fd()), path.Base(name), []unix.Timespec{m, m}, unix.AT_SYMLINK_NOFOLLOW)
}

// owner sets the owner, or records it where only one user is mapped.
func (u *untarrer) owner(name string, h *tar.Header) error {
	if h.Uid < 0 { // a directory that the layer implies: root's
		h.Uid, h.Gid = 0, 0
	}
	err := u.root.Lchown(name, h.Uid, h.Gid)
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	u.stat.Squashed++
	if h.Typeflag == tar.TypeSymlink {
		return nil // has no xattrs of a user
	}
	value := fmt.Sprintf("%d:%d:0%o", h.Uid, h.Gid, h.Mode&0o7777)
	return tolerable(u.setxattr(name, ownerXattr, value))
}

// xattrs sets what the archive says, save what an overlay would take for its own
// marks: those are the unpacker's to set.
func (u *untarrer) xattrs(name string, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok || strings.HasPrefix(attr, "trusted.overlay.") || strings.HasPrefix(attr, "user.overlay.") || attr == ownerXattr {
			continue
		}
		if err := tolerable(u.setxattr(name, attr, value)); err != nil {
			return fmt.Errorf("xattr %s: %w", attr, err)
		}
	}
	return nil
}

// tolerable drops the errors of a file system or user without that xattr.
func tolerable(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}

// setxattr sets the xattr of the entry itself. The kernel has no call relative
// to a descriptor before 6.13, hence the way over /proc.
func (u *untarrer) setxattr(name, attr, value string) error {
	parent, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	return unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", parent.Fd(), path.Base(name)), attr, []byte(value), 0)
}

// finish gives directories their marks, modes and times, deepest first: a
// read-only parent, or a later entry, would undo or forbid it earlier.
func (u *untarrer) finish() error {
	names := make([]string, 0, len(u.dirs))
	for name := range u.dirs {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	if err := u.placeWhiteouts(); err != nil {
		return err
	}
	u.stat.Opaque = u.opaque["."]
	delete(u.opaque, ".")
	for name := range u.opaque {
		if err := u.setxattr(name, u.form+".overlay.opaque", "y"); err != nil {
			return fmt.Errorf("mark %q opaque: %w", name, err)
		}
	}
	for _, name := range names {
		if name == "." {
			continue
		}
		if err := u.metadata(name, u.dirs[name]); err != nil {
			return fmt.Errorf("directory %q: %w", name, err)
		}
	}
	return u.finishRoot()
}

// finishRoot keeps the layer's own top directory writable for its owner, or the
// cache could not be pruned.
func (u *untarrer) finishRoot() error {
	h, ok := u.dirs["."]
	if !ok {
		return nil
	}
	h = &tar.Header{Typeflag: tar.TypeDir, Mode: h.Mode | 0o700, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime, PAXRecords: h.PAXRecords}
	return u.metadata(".", h)
}
