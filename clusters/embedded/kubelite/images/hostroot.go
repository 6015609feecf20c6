package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostPrivate are the directories of a machine's root that hold what is running
// on it and what its users keep, keys and start-up files of shells among them; a
// container's are empty.
var hostPrivate = map[string]fs.FileMode{
	"home": 0o755, "root": 0o700, "run": 0o755, "tmp": 0o777 | fs.ModeSticky, "var/tmp": 0o777 | fs.ModeSticky,
}

// MountHostRoot mounts a read-only view of this machine's root at dir/root, for
// Config.HostRoot, and returns that path. It belongs into the mount namespace of
// the runtime and needs root. Overlayfs refuses lower directories of which one
// holds the other, so "/" cannot be one beside a layer; a second overlay over it
// can. The machine's other mounts (a /usr or /home of its own) are not seen in it.
//
// In a user namespace the kernel refuses "/" altogether, since mounts lie hidden
// below it; so it does on a root that is an overlay already.
func MountHostRoot(dir string) (string, error) {
	over, root := filepath.Join(dir, "over"), filepath.Join(dir, "root")
	for _, d := range []string{over, root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	// A file system of its own, or "/" would hold this lower directory too.
	if err := unix.Mount("tmpfs", over, "tmpfs", 0, "mode=0755"); err != nil {
		return "", fmt.Errorf("mount %s: %w", over, err)
	}
	err := hidePrivate(over)
	if err == nil {
		err = unix.Mount("hostroot", root, "overlay", unix.MS_RDONLY, "lowerdir="+over+":/")
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("mount this machine's root as a layer: %w", err), unix.Unmount(over, 0))
	}
	return root, nil
}

// hidePrivate lays empty, opaque directories over those that are private.
func hidePrivate(over string) error {
	for _, name := range sortedKeys(hostPrivate) {
		info, err := os.Lstat("/" + name)
		if err != nil || !info.IsDir() {
			continue
		}
		at := filepath.Join(over, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(at, hostPrivate[name]); err != nil {
			return err
		}
		if err := unix.Setxattr(at, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("hide /%s: %w", name, err)
		}
	}
	return nil
}
