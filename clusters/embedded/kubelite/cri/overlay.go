package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// overlay is a container's root: an image's layers, read-only, under a
// directory of the container's own.
type overlay struct {
	dir    string   // holds upper, work, the mount point root, and links to the layers
	layers []string // topmost first
	user   bool     // in a user namespace: attributes in user.*, which alone may be written there
}

func (o overlay) root() string { return filepath.Join(o.dir, "root") }

// mount must run on a thread with a mount namespace of its own.
func (o overlay) mount() error {
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(o.dir, d), 0o755); err != nil {
			return fmt.Errorf("container root: %w", err)
		}
	}
	err := mountOverlay(o.root(), o.layers, filepath.Join(o.dir, "upper"), filepath.Join(o.dir, "work"), o.user)
	if err != nil && o.user && errors.Is(err, unix.EINVAL) {
		return o.mountByEntry()
	}
	return err
}

// mountOverlay mounts layers on target; without upper they stay read-only. Where
// the paths are too long for mount(2), links in target's parent stand for them.
func mountOverlay(target string, layers []string, upper, work string, user bool) error {
	for _, l := range layers {
		if strings.ContainsAny(l, ":,\\") {
			return fmt.Errorf("image layer %q: the path must not contain ':', ',' or '\\'", l)
		}
	}
	options := overlayOptions(layers, upper, work, user)
	if len(options) > maxMountArg {
		short, err := shortLayers(filepath.Dir(target), layers)
		if err != nil {
			return err
		}
		options = overlayOptions(short, upper, work, user)
	}
	if err := unix.Mount("overlay", target, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay of %d layers on %s: %w", len(layers), target, err)
	}
	return nil
}

func overlayOptions(layers []string, upper, work string, user bool) string {
	o := "lowerdir=" + strings.Join(layers, ":")
	if upper != "" {
		o += ",upperdir=" + upper + ",workdir=" + work
	}
	if user {
		o += ",userxattr"
	}
	return o
}

// shortLayers makes the calling thread's working directory hold links 0, 1, 2 …
func shortLayers(dir string, layers []string) ([]string, error) {
	links := filepath.Join(dir, "layers")
	if err := os.MkdirAll(links, 0o755); err != nil {
		return nil, err
	}
	short := make([]string, len(layers))
	for i, l := range layers {
		short[i] = strconv.Itoa(i)
		if err := os.Symlink(l, filepath.Join(links, short[i])); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return short, unix.Chdir(links)
}

// mountByEntry builds the root out of one overlay per top-level directory. In a
// user namespace the machine's own root cannot be a layer as a whole: it has
// mounts below it that the kernel will not uncover (they are locked). A
// directory that has some itself is bound as it is, its mounts read-only.
func (o overlay) mountByEntry() error {
	tree, err := newFS("tmpfs", 0, "mode=0755")
	if err != nil {
		return err
	}
	target, err := unix.Open(o.root(), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(tree)
		return err
	}
	if err := place(tree, target); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, layer := range o.layers {
		entries, err := os.ReadDir(layer)
		if err != nil {
			return fmt.Errorf("image layer: %w", err)
		}
		for _, e := range entries {
			if seen[e.Name()] {
				continue
			}
			seen[e.Name()] = true
			if err := o.mountEntry(e, o.layers[i:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountedAnyway are covered in every container that is laid over the machine's root.
var mountedAnyway = map[string]bool{"dev": true, "proc": true, "run": true, "sys": true, "tmp": true}

func (o overlay) mountEntry(e os.DirEntry, layers []string) error {
	name, source := filepath.Join(o.root(), e.Name()), filepath.Join(layers[0], e.Name())
	switch {
	case e.Type()&os.ModeSymlink != 0:
		to, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(to, name)
	case e.Type().IsRegular():
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
		return bindOver(source, name)
	case !e.IsDir():
		return nil // devices and sockets at the top are not an image's
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		return err
	}
	if layers[len(layers)-1] == "/" && mountedAnyway[e.Name()] {
		return nil
	}
	var lowers []string
	for _, l := range layers {
		if st, err := os.Stat(filepath.Join(l, e.Name())); err == nil && st.IsDir() {
			lowers = append(lowers, filepath.Join(l, e.Name()))
		}
	}
	upper, work := filepath.Join(o.dir, "upper", e.Name()), filepath.Join(o.dir, "work", e.Name())
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	if err := mountOverlay(name, lowers, upper, work, true); err != nil {
		return bindOver(source, name)
	}
	return nil
}

// bindOver mounts source on target, read-only.
func bindOver(source, target string) error {
	tree, err := cloneTree(source)
	if err != nil {
		return err
	}
	if err := setAttr(tree, true, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		unix.Close(tree)
		return err
	}
	fd, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(tree)
		return err
	}
	return place(tree, fd)
}
