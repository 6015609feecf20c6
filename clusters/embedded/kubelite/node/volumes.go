package node

import (
	"fmt"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/local"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
)

// volumePlugins are those that need nothing but directories.
func volumePlugins() []volume.VolumePlugin {
	var out []volume.VolumePlugin
	for _, probed := range [][]volume.VolumePlugin{
		emptydir.ProbeVolumePlugins(),
		hostpath.ProbeVolumePlugins(volume.VolumeConfig{}),
		secret.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(),
		configmap.ProbeVolumePlugins(),
		projected.ProbeVolumePlugins(),
		local.ProbeVolumePlugins(),
	} {
		out = append(out, probed...)
	}
	return out
}

// subpaths resolves volumeMounts[].subPath. Upstream bind-mounts what it
// resolved, to hold it against a pod that swaps in a symbolic link meanwhile;
// here every link is resolved inside the volume, so that it cannot lead out.
type subpaths struct{}

var _ subpath.Interface = subpaths{}

// PrepareSafeSubpath resolves the sub-path inside its volume.
func (subpaths) PrepareSafeSubpath(s subpath.Subpath) (string, func(), error) {
	rel, err := filepath.Rel(s.VolumePath, s.Path)
	if err != nil {
		return "", nil, fmt.Errorf("subPath of volume %s: %w", s.VolumeName, err)
	}
	path, err := securejoin.SecureJoin(s.VolumePath, rel)
	if err != nil {
		return "", nil, fmt.Errorf("subPath of volume %s: %w", s.VolumeName, err)
	}
	if _, err := os.Lstat(path); err != nil {
		return "", nil, fmt.Errorf("subPath of volume %s: %w", s.VolumeName, err)
	}
	return path, nil, nil
}

// CleanSubPaths has nothing to unmount.
func (subpaths) CleanSubPaths(string, string) error { return nil }

// SafeMakeDir makes subdir, with every link resolved inside base.
func (subpaths) SafeMakeDir(subdir, base string, perm os.FileMode) error {
	path, err := securejoin.SecureJoin(base, subdir)
	if err != nil {
		return err
	}
	return os.MkdirAll(path, perm)
}
