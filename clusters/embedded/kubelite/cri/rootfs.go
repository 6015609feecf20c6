package cri

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"

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
		// The machine's own runtime files and temporary files are not an image's, nor
		// are its users' keys and start-up files.
		if err := errors.Join(
			r.mountFS("/home", "tmpfs", attrNoDev, "mode=0755"),
			r.mountFS("/root", "tmpfs", attrNoDev, "mode=0700"),
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
