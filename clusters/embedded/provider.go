// Package embedded is the cluster that needs nothing but a Linux kernel: it starts kubelite (Kubernetes
// itself in one binary, see the kubelite folder) in namespaces of its own and talks to it.
//
// Nothing about a cluster is written down. Its name is an abstract unix socket, which the kernel lists
// in /proc/net/unix; its first process is PID 1 of a PID namespace, so that the kernel removes every
// process, mount, link and rule with it. A state file was rejected: after kill -9 it would lie.
package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"shakedown.dev/shakedown/clusters"
)

// Provider is clusters.Provider for this machine. The zero value is ready to use.
type Provider struct {
	Kubelite string              // path of the kubelite binary; empty: beside this program, $PATH
	CacheDir string              // of unpacked images, kept between runs; empty: in os.UserCacheDir
	Progress func(clusters.Step) // called from one goroutine at a time; nil: nobody watches
	Log      *slog.Logger        // what is done and with what; nil: nobody reads it
}

var _ clusters.Provider = (*Provider)(nil)

func (p *Provider) report(s clusters.Step) {
	if p.Progress != nil {
		p.Progress(s)
	}
}

func (p *Provider) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log
}

// cacheDir is where the image cache is, created if need be.
func (p *Provider) cacheDir() (string, error) {
	dir := p.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "shakedown")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// bootSpec is spec in kubelite's words. Relative paths are made absolute: kubelite works in /.
func bootSpec(spec clusters.Spec, cache string) (BootSpec, error) {
	boot := BootSpec{
		Protocol: ProtocolVersion, Name: spec.Name, Nodes: spec.Nodes, HollowNodes: spec.HollowNodes,
		ImageCache: cache, APIPort: spec.APIPort, Labels: spec.Labels,
	}
	if spec.NodeMonitorGrace != 0 {
		boot.NodeMonitorGrace = spec.NodeMonitorGrace.String()
	}
	for _, image := range spec.Images {
		source, err := absoluteSource(image.Source)
		if err != nil {
			return BootSpec{}, err
		}
		boot.Images = append(boot.Images, ImageSource{Name: image.Name, Source: source})
	}
	return boot, nil
}

// absoluteSource leaves alone what is no path of this machine, that is, registry references.
func absoluteSource(source string) (string, error) {
	if dir, ok := strings.CutPrefix(source, "host:"); ok {
		abs, err := filepath.Abs(dir)
		if err == nil {
			_, err = os.Stat(abs)
		}
		return "host:" + abs, err
	}
	if _, err := os.Stat(source); err != nil {
		return source, nil
	}
	return filepath.Abs(source)
}
