package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostRoot says where the machine's own root file system is to be found from
// inside the node.
type hostRoot string

// inside turns a path of the machine into one of the node.
func (h hostRoot) inside(path string) string { return filepath.Join(string(h), path) }

// oldRoot is where a node that has a root of its own keeps the machine's.
const oldRoot = "/.host"

// enterRoot gives the node a root file system of its own: the machine's below,
// a writable layer of the node's above. What a pod writes to a hostPath volume
// then stays on that node and ends with the cluster. Where the kernel does not
// allow it (an ordinary user's namespace) the node sees the machine's root,
// with no more rights there than the user has.
func enterRoot(cfg Config, log *slog.Logger) (hostRoot, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make mounts private: %w", err)
	}
	host := hostRoot("/")
	if err := overlayRoot(cfg); err != nil {
		log.Warn("the node has no root file system of its own", "why", err)
		if err := coverLogs(); err != nil {
			return "", err
		}
	} else {
		host = oldRoot
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "", fmt.Errorf("mount /proc: %w", err)
	}
	return host, nil
}

// coverLogs gives a node on the machine's own root the one place outside its
// directory that a kubelet insists on writing to.
func coverLogs() error {
	if err := unix.Mount("logs", "/var/log", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount a private /var/log: %w", err)
	}
	return nil
}

func overlayRoot(cfg Config) error {
	upper, work, merged := filepath.Join(cfg.Dir, "root"), filepath.Join(cfg.Dir, "work"), filepath.Join(cfg.Dir, "merged")
	for _, d := range []string{upper, work, merged, filepath.Join(upper, oldRoot)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	opts := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)
	if err := unix.Mount("overlay", merged, "overlay", 0, opts); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for _, d := range []string{"/dev", "/sys", "/proc", filepath.Dir(cfg.StateDir)} {
		if err := unix.Mount(d, filepath.Join(merged, d), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			_ = unix.Unmount(merged, unix.MNT_DETACH)
			return fmt.Errorf("bind %s: %w", d, err)
		}
	}
	if err := unix.PivotRoot(merged, filepath.Join(merged, oldRoot)); err != nil {
		_ = unix.Unmount(merged, unix.MNT_DETACH)
		return fmt.Errorf("pivot_root: %w", err)
	}
	return os.Chdir("/")
}

// InUserNamespace says whether root here is an ordinary user of the machine.
func InUserNamespace() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside uint64
	_, scanErr := fmt.Sscan(string(data), &inside, &outside)
	return err == nil && scanErr == nil && (inside != 0 || outside != 0)
}
