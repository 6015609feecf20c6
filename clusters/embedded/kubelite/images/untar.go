package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// ErrEscapes is reported for an archive whose entry names something outside it.
var ErrEscapes = errors.New("names a place outside the image")

// untar unpacks one layer into dir, which must be empty and not written to by
// anyone else, and turns the layer's whiteouts into those of an overlay whose
// xattrs live in the namespace form ("trusted" or "user").
//
// No entry can reach outside dir. Directories on an entry's way are resolved as
// the container would resolve them, absolute links included, with dir as "/";
// what is then done goes through an os.Root, which refuses to leave dir should
// that reckoning ever be wrong.
func untar(ctx context.Context, r io.Reader, dir, form string) (layerStat, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return layerStat{}, err
	}
	defer root.Close()
	u := &untarrer{root: root, dir: dir, form: form, dirs: map[string]*tar.Header{}, opaque: map[string]bool{}, whiteouts: map[string]bool{}}
	archive := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return u.stat, err
		}
		h, err := archive.Next()
		if err == io.EOF {
			err := u.finish()
			return u.stat, err
		}
		if err != nil {
			return u.stat, fmt.Errorf("read layer: %w", err)
		}
		if err := u.entry(h, archive); err != nil {
			return u.stat, fmt.Errorf("entry %q: %w", h.Name, err)
		}
	}
}

type untarrer struct {
	root      *os.Root
	dir, form string
	stat      layerStat

	dirs      map[string]*tar.Header // modes and times are set last, or they would be in the way
	opaque    map[string]bool
	whiteouts map[string]bool
}

func (u *untarrer) entry(h *tar.Header, body io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.resolve(h.Name)
	if err != nil {
		return err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), ".wh."); ok {
		return u.whiteout(path.Dir(name), hidden)
	}
	if h.Typeflag == tar.TypeDir {
		return u.directory(name, h)
	}
	if name == "." {
		return errors.New("the root is no directory")
	}
	if err := u.clear(name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return u.hardLink(name, h.Linkname)
	}
	made, err := u.create(name, h, body)
	if err != nil || !made {
		return err
	}
	u.stat.Inodes++
	return u.metadata(name, h)
}

// create makes what is no directory and no second name; made is false for a
// device that this process may not make.
func (u *untarrer) create(name string, h *tar.Header, body io.Reader) (made bool, err error) {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return true, u.regular(name, body)
	case tar.TypeSymlink:
		return true, u.root.Symlink(h.Linkname, name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.special(name, h)
	}
	return false, fmt.Errorf("unknown type %q", h.Typeflag)
}

// resolve returns the entry's path below the root with no symbolic link in its
// directories, and makes those directories.
func (u *untarrer) resolve(name string) (string, error) {
	clean := path.Clean("/" + name)[1:]
	if escapes(name) || strings.ContainsRune(name, 0) {
		return "", ErrEscapes
	}
	if clean == "" {
		return ".", nil
	}
	parent, err := u.resolveDir(path.Dir(clean))
	if err != nil {
		return "", err
	}
	if err := u.mkdirAll(parent); err != nil {
		return "", err
	}
	return path.Join(parent, path.Base(clean)), nil
}

func (u *untarrer) resolveDir(name string) (string, error) {
	full, err := securejoin.SecureJoin(u.dir, name)
	if err != nil {
		return "", err
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(full, strings.TrimSuffix(u.dir, "/")), "/")
	if rel == "" {
		return ".", nil
	}
	return rel, nil
}

// escapes tells whether the name climbs above its start on its way.
func escapes(name string) bool {
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// mkdirAll makes directories that no entry has described yet. What is in their
// way and is no directory was put there by an earlier entry and gives way.
func (u *untarrer) mkdirAll(name string) error {
	if name == "." {
		return nil
	}
	info, err := u.root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err := u.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	return u.makeDir(name, 0o755)
}

func (u *untarrer) makeDir(name string, mode fs.FileMode) error {
	hid := u.whiteouts[name]
	if err := u.clear(name); err != nil {
		return err
	}
	if err := u.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	u.stat.Inodes++
	u.dirs[name] = &tar.Header{Mode: int64(mode), Typeflag: tar.TypeDir, Uid: -1}
	if hid {
		u.opaque[name] = true // hidden below, made anew here: nothing shines through
	}
	return nil
}

func (u *untarrer) directory(name string, h *tar.Header) error {
	if name != "." {
		info, err := u.root.Lstat(name)
		if err != nil || !info.IsDir() {
			if err := u.makeDir(name, 0o755); err != nil {
				return err
			}
		}
	}
	u.dirs[name] = h
	return nil
}

// clear removes what an earlier entry of the layer left at the name.
func (u *untarrer) clear(name string) error {
	delete(u.whiteouts, name)
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		for dir := range u.dirs {
			if dir == name || strings.HasPrefix(dir, name+"/") {
				delete(u.dirs, dir)
				delete(u.opaque, dir)
			}
		}
		for hidden := range u.whiteouts {
			if strings.HasPrefix(hidden, name+"/") {
				delete(u.whiteouts, hidden)
			}
		}
		return u.root.RemoveAll(name)
	}
	return u.root.Remove(name)
}

func (u *untarrer) regular(name string, body io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, body)
	u.stat.Bytes += uint64(n)
	return errors.Join(err, f.Close())
}

// hardLink links to an entry of the same layer. The target's directories are
// resolved below the root; a link that it ends in is linked to, not followed.
func (u *untarrer) hardLink(name, target string) error {
	if escapes(target) {
		return fmt.Errorf("hard link to %q: %w", target, ErrEscapes)
	}
	clean := path.Clean("/" + target)[1:]
	parent, err := u.resolveDir(path.Dir(clean))
	if err != nil {
		return err
	}
	if err := u.root.Link(path.Join(parent, path.Base(clean)), name); err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	return nil
}

// special makes a device or pipe; made is false where this process may not.
func (u *untarrer) special(name string, h *tar.Header) (made bool, err error) {
	mode := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}[h.Typeflag]
	if h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0 {
		return false, errors.New("device 0:0 is the mark of an overlay's whiteout")
	}
	err = u.mknod(name, mode|0o600, unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)))
	if errors.Is(err, unix.EPERM) {
		u.stat.Skipped++
		return false, nil
	}
	return err == nil, err
}

func (u *untarrer) mknod(name string, mode uint32, dev uint64) error {
	parent, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	return unix.Mknodat(int(parent.Fd()), path.Base(name), mode, int(dev))
}
