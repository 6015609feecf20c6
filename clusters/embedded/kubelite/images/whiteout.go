package images

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// whiteout takes note of a layer's mark that a name of the layers below is gone
// (OCI image specification, "Whiteouts"); hidden is the mark's name without ".wh.".
// A mark hides nothing of its own layer, whatever the order of the entries.
func (u *untarrer) whiteout(dir, hidden string) error {
	switch {
	case hidden == ".wh..opq":
		u.opaque[dir] = true
		return nil
	case strings.HasPrefix(hidden, ".wh."): // bookkeeping of AUFS
		return nil
	case hidden == "" || hidden == "." || hidden == "..":
		return ErrEscapes
	}
	name := path.Join(dir, hidden)
	info, err := u.root.Lstat(name)
	if err != nil {
		u.whiteouts[name] = true
		return nil
	}
	if info.IsDir() {
		u.opaque[name] = true
	}
	return nil
}

// placeWhiteouts makes the marks once no entry can come in their way any more.
func (u *untarrer) placeWhiteouts() error {
	for name := range u.whiteouts {
		if u.opaque[path.Dir(name)] {
			continue // nothing below is seen anyway
		}
		if _, err := u.root.Lstat(name); err == nil {
			continue
		}
		u.stat.Inodes++
		err := u.mknod(name, unix.S_IFCHR, 0)
		if errors.Is(err, unix.EPERM) {
			err = u.xattrWhiteout(name)
		}
		if err != nil {
			return fmt.Errorf("whiteout of %q: %w", name, err)
		}
	}
	return nil
}

// xattrWhiteout is the form for those who may not make the device (Linux 6.7):
// an empty file with a mark, and a mark on its directory to look for them.
func (u *untarrer) xattrWhiteout(name string) error {
	f, err := u.root.Create(name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := u.setxattr(name, u.form+".overlay.whiteout", "y"); err != nil {
		return err
	}
	return u.setxattr(path.Dir(name), u.form+".overlay.opaque", "x")
}
