package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
