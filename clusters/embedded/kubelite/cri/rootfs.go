package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (c *container) rootDir() string { return filepath.Join(c.dir, "root") }

// mounts says whether the pod mounts something on exactly this path.
func (c *container) mounts(name string) bool {
	return slices.ContainsFunc(c.cfg.GetMounts(), func(m *runtimeapi.Mount) bool {
		return path.Clean(m.ContainerPath) == name
	})
}

// hostRoot says that the image is laid over the machine's own root filesystem.
func (c *container) hostRoot() bool { return c.image.Layers[len(c.image.Layers)-1] == "/" }

// mountRoot builds the container's tree in the calling thread's mount namespace.
// /proc is missing: the shim mounts it.
func (l *launch) mountRoot() (_ root, err error) {
	c := l.c
	// Copied before the namespace stops sending mounts back to the node, which
	// bidirectional volumes must go on doing.
	trees, err := l.volumeTrees()
	defer func() {
		for _, t := range trees {
			unix.Close(t.fd)
		}
	}()
	if err != nil {
		return root{}, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return root{}, fmt.Errorf("separate the mounts from the node's: %w", err)
	}
	o := overlay{dir: c.dir, layers: c.image.Layers, user: !l.r.ids.initial()}
	if err := o.mount(); err != nil {
		return root{}, err
	}
	r, err := openRoot(o.root())
	if err != nil {
		return root{}, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := l.mountStandard(r); err != nil {
		return root{}, err
	}
	for i, t := range trees {
		if img, ok := l.volumes[t.mount]; ok {
			if t.fd, err = l.imageTree(filepath.Join(c.dir, "volume"+strconv.Itoa(i)), img, t.mount.GetImageSubPath()); err != nil {
				return root{}, fmt.Errorf("volume %s: %w", t.mount.ContainerPath, err)
			}
		}
		trees[i].fd = -1
		if err = r.placeLike(t.fd, t.mount.ContainerPath); err != nil {
			return root{}, fmt.Errorf("volume %s: %w", t.mount.ContainerPath, err)
		}
	}
	return r, nil
}

// mountStandard mounts what every container has.
func (l *launch) mountStandard(r root) error {
	c, s := l.c, l.c.sandbox
	if c.hostRoot() {
		// The machine's own runtime files and temporary files are not an image's.
		if err := errors.Join(
			r.mountFS("/run", "tmpfs", attrNoDev, "mode=0755"),
			r.mountFS("/tmp", "tmpfs", attrNoDev, "mode=1777")); err != nil {
			return err
		}
	}
	if err := r.realDir("proc"); err != nil {
		return err
	}
	if err := r.mountDev(s.shmPath()); err != nil {
		return err
	}
	if err := l.mountDevices(r); err != nil {
		return err
	}
	if err := l.mountSys(r); err != nil {
		return err
	}
	for name, file := range map[string]string{"/etc/hostname": "hostname", "/etc/resolv.conf": "resolv.conf"} {
		if c.mounts(name) {
			continue
		}
		if err := r.bind(s.path(file), name); err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) mountDevices(r root) error {
	if l.c.security().GetPrivileged() {
		return r.allDevices()
	}
	for _, d := range l.c.cfg.GetDevices() {
		if err := r.hostDevices(d.GetHostPath(), d.GetContainerPath()); err != nil {
			return err
		}
	}
	return nil
}

// mountSys shows the pod's own network devices; where the kernel refuses a new
// sysfs (a user namespace under a restricted one) the node's is shown.
func (l *launch) mountSys(r root) error {
	attr := attrKernel | unix.MOUNT_ATTR_RDONLY
	if l.c.security().GetPrivileged() {
		attr = attrKernel
	}
	err := r.mountFS("/sys", "sysfs", attr)
	if errors.Is(err, unix.EPERM) {
		var tree int
		if tree, err = cloneTree("/sys"); err != nil {
			return err
		}
		if err := setAttr(tree, true, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			unix.Close(tree)
			return err
		}
		return r.placeAt(tree, "/sys")
	}
	if err != nil {
		return err
	}
	return l.r.cgroups.prepare(r)
}

// seal makes the root filesystem read-only, after its mount points are made.
func (r root) seal(readOnly bool) error {
	if !readOnly {
		return nil
	}
	return setAttr(r.fd, false, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// tree is a volume on its way to its place; an image's has no descriptor yet.
type tree struct {
	fd    int
	mount *runtimeapi.Mount
}

// volumeTrees copies the pod's mounts, parents before what lies inside them.
func (l *launch) volumeTrees() (trees []tree, err error) {
	mounts := slices.Clone(l.c.cfg.GetMounts())
	slices.SortStableFunc(mounts, func(a, b *runtimeapi.Mount) int {
		return depth(a.ContainerPath) - depth(b.ContainerPath)
	})
	for _, m := range mounts {
		t := tree{-1, m}
		if _, ok := l.volumes[m]; !ok {
			if t.fd, err = volumeTree(m); err != nil {
				return trees, fmt.Errorf("volume %s: %w", m.ContainerPath, err)
			}
		}
		trees = append(trees, t)
	}
	return trees, nil
}

func depth(p string) int { return strings.Count(path.Clean(p), "/") }

func volumeTree(m *runtimeapi.Mount) (int, error) {
	if len(m.GetUidMappings()) > 0 || len(m.GetGidMappings()) > 0 {
		return -1, errors.New("mounts with mapped ids are not supported")
	}
	if _, err := os.Stat(m.HostPath); errors.Is(err, os.ErrNotExist) {
		// As containerd does for a host path that does not exist yet.
		if err := os.MkdirAll(m.HostPath, 0o755); err != nil {
			return -1, err
		}
	}
	fd, err := cloneTree(m.HostPath)
	if err != nil {
		return -1, err
	}
	if err := setVolumeAttr(fd, m); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func setVolumeAttr(fd int, m *runtimeapi.Mount) error {
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	switch m.GetPropagation() {
	case runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		attr.Propagation = unix.MS_SLAVE
	case runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
		attr.Propagation = unix.MS_SHARED
	}
	if err := setAttr(fd, true, attr); err != nil {
		return err
	}
	if !m.GetReadonly() {
		return nil
	}
	return setAttr(fd, m.GetRecursiveReadOnly(), unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// imageVolumes finds the images that the pod mounts as volumes.
func (r *Runtime) imageVolumes(ctx context.Context, c *container) (map[*runtimeapi.Mount]Image, error) {
	found := map[*runtimeapi.Mount]Image{}
	for _, m := range c.cfg.GetMounts() {
		if m.GetImage().GetImage() == "" {
			continue
		}
		img, err := r.cfg.Images.Rootfs(ctx, m.Image.Image)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.ContainerPath, err)
		}
		found[m] = img
	}
	return found, nil
}

// imageTree is an image's content, read-only, from subPath on.
func (l *launch) imageTree(dir string, img Image, subPath string) (int, error) {
	source := img.Layers[0]
	if len(img.Layers) > 1 {
		source = filepath.Join(dir, "root")
		if err := os.MkdirAll(source, 0o755); err != nil {
			return -1, err
		}
		if err := mountOverlay(source, img.Layers, "", "", !l.r.ids.initial()); err != nil {
			return -1, err
		}
	}
	r, err := openRoot(source)
	if err != nil {
		return -1, err
	}
	defer r.Close()
	fd, err := r.open("/"+subPath, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	t, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, os.NewSyscallError("open_tree", err)
	}
	return t, setAttr(t, false, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
