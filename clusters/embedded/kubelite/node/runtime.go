package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	internalapi "k8s.io/cri-api/pkg/apis"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/cri"
	"shakedown.dev/shakedown/clusters/embedded/kubelite/images"
)

// newRuntime is the node's container runtime, and the image service under it.
func newRuntime(cfg Config, host hostRoot, log *slog.Logger) (*cri.Runtime, internalapi.ImageManagerService, error) {
	pods, err := netip.ParsePrefix(cfg.PodCIDR)
	if err != nil {
		return nil, nil, err
	}
	address, err := netip.ParseAddr(cfg.Address)
	if err != nil {
		return nil, nil, err
	}
	puller := images.Dial(cfg.ImageSocket)
	rt, err := cri.New(cri.Config{
		Cluster: cfg.Cluster, Node: cfg.Name, Dir: cfg.runtimeDir(),
		Images:  unpacked{puller, host, filepath.Dir(cfg.StateDir)},
		PodCIDR: pods, NodeIP: address, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	return rt, images.NewService(puller), nil
}

// unpacked gives the runtime root file systems whose paths hold inside the node.
type unpacked struct {
	puller images.Puller
	host   hostRoot
	shared string // the directory that is the same inside and outside
}

// Rootfs implements cri.Images.
func (u unpacked) Rootfs(ctx context.Context, ref string) (cri.Image, error) {
	img, err := u.puller.Rootfs(ctx, ref)
	if err != nil {
		return cri.Image{}, err
	}
	layers := make([]string, len(img.Layers))
	for i, l := range img.Layers {
		layers[i] = u.inside(l)
	}
	return cri.Image{
		ID: img.ID, Layers: layers, Env: img.Env, Entrypoint: img.Entrypoint, Cmd: img.Cmd,
		WorkingDir: img.WorkingDir, User: img.User, StopSignal: img.StopSignal,
	}, nil
}

func (u unpacked) inside(path string) string {
	if path == u.shared || strings.HasPrefix(path, u.shared+"/") {
		return path
	}
	return u.host.inside(path)
}

// Limits says whether memory and CPU limits of containers hold on a node.
type Limits struct {
	Hold bool   `json:"hold"`
	Why  string `json:"why,omitempty"` // they do not
}

// label is the value of LimitsLabel.
func (l Limits) label() string {
	if l.Hold {
		return "enforced"
	}
	return "not-enforced"
}

// writeLimits leaves word for kubelite init, which is asked for it.
func writeLimits(dir string, l Limits) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(limitsFile(dir), data, 0o644)
}

// ReadLimits is what the node whose directory is dir has found out.
func ReadLimits(dir string) (Limits, error) {
	var l Limits
	data, err := os.ReadFile(limitsFile(dir))
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(data, &l)
}

func limitsFile(dir string) string { return filepath.Join(dir, "limits.json") }
