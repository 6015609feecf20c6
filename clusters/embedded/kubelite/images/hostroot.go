package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// MountHostRoot mounts a read-only view of this machine's root at dir/root, for
// Config.HostRoot, and returns that path. It belongs into the mount namespace of
// the runtime and needs root. Overlayfs refuses lower directories of which one
// holds the other, so "/" cannot be one beside a layer; a second overlay over it
// can. The machine's other mounts (a /usr or /home of its own) are not seen in it.
//
// In a user namespace the kernel refuses "/" altogether, since mounts lie hidden
// below it; so it does on a root that is an overlay already. Config.HostRoot then
// stays empty.
func MountHostRoot(dir string) (string, error) {
	empty, root := filepath.Join(dir, "empty"), filepath.Join(dir, "root")
	for _, d := range []string{empty, root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	// A file system of its own, or "/" would hold this lower directory too.
	if err := unix.Mount("tmpfs", empty, "tmpfs", 0, "mode=0755"); err != nil {
		return "", fmt.Errorf("mount %s: %w", empty, err)
	}
	if err := unix.Mount("hostroot", root, "overlay", unix.MS_RDONLY, "lowerdir="+empty+":/"); err != nil {
		return "", errors.Join(fmt.Errorf("mount this machine's root as a layer: %w", err), unix.Unmount(empty, 0))
	}
	return root, nil
}

// Directories of a machine's root that hold programs and what they need: each
// becomes a bind. The others are made anew and empty.
var hostPrograms = []string{"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"}

// Directories that programs expect to exist, with their modes.
var hostEmpty = map[string]fs.FileMode{
	"boot": 0o755, "dev": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "proc": 0o555, "root": 0o700, "run": 0o755,
	"srv": 0o755, "sys": 0o555, "tmp": 0o777 | fs.ModeSticky, "var": 0o755, "var/cache": 0o755, "var/lib": 0o755,
	"var/log": 0o755, "var/tmp": 0o777 | fs.ModeSticky,
}

// skeleton makes the layer that stands for this machine's root where the root
// itself cannot be a layer: links and empty directories, and the binds to fill
// them with.
func (s *Store) skeleton(ctx context.Context) (key string, binds []string, err error) {
	links := map[string]string{"var/run": "/run"}
	for _, name := range hostPrograms {
		info, err := os.Lstat("/" + name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			if links[name], err = os.Readlink("/" + name); err != nil {
				return "", nil, err
			}
		case info.IsDir():
			binds = append(binds, "/"+name)
		}
	}
	key = "host-" + hexKey(append([]string{"skeleton", fmt.Sprint(links)}, binds...)...)
	_, err = s.cache.ensure(ctx, key, func(root string) (layerStat, error) {
		return makeSkeleton(root, links, binds)
	})
	return key, binds, err
}

func makeSkeleton(root string, links map[string]string, binds []string) (layerStat, error) {
	dirs := maps.Clone(hostEmpty)
	for _, bind := range binds {
		dirs[bind[1:]] = 0o755
	}
	for _, name := range sortedKeys(dirs) {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			return layerStat{}, err
		}
		if err := os.Chmod(filepath.Join(root, name), dirs[name]); err != nil {
			return layerStat{}, err
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			return layerStat{}, err
		}
	}
	return layerStat{Inodes: uint64(len(dirs) + len(links))}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
