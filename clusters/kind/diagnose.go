package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// What a control plane and three workers take, as measured: kind's own documentation asks for about as much.
const (
	clusterMemory = 2 << 30
	minInstances  = 128 // inotify instances: a node takes about 20
	minWatches    = 65536
)

// check is one thing that doctor looks at.
type check struct {
	name     string
	required bool
	do       string
	run      func(context.Context) (detail string, err error)
}

// Diagnose looks at what kind clusters stand on. Without a Docker engine the rest is not looked at.
func (p *Provider) Diagnose(ctx context.Context) []clusters.Finding {
	var findings []clusters.Finding
	for _, c := range p.checks() {
		f := clusters.Finding{Name: c.name, Required: c.required, OK: true}
		detail, err := c.run(ctx)
		if f.Detail = detail; err != nil {
			f.OK, f.Detail, f.Do = false, err.Error(), c.do
			if hint := exit.HintOf(err); hint != "" {
				f.Do = hint
			}
		}
		if findings = append(findings, f); c.required && err != nil {
			break
		}
	}
	return findings
}

func (p *Provider) checks() []check {
	return []check{
		{"Docker engine", true, "install Docker and start it", dockerVersion},
		{"shared files", true, "run Shakedown where the Docker engine runs; load reaches pods through sockets that only one kernel can hand over", sameMachine},
		{"cgroups", false, "Kubernetes from v1.35 on wants cgroup v2: boot with systemd.unified_cgroup_hierarchy=1, take a node image before that, or failCgroupV1: false in --kind-config", cgroupVersion},
		{"inotify instances", false, "sysctl fs.inotify.max_user_instances=512: with too few, nodes fail with too many open files", limit("fs/inotify/max_user_instances", minInstances)},
		{"inotify watches", false, "sysctl fs.inotify.max_user_watches=524288", limit("fs/inotify/max_user_watches", minWatches)},
		{"memory", false, "free some: a control plane and three nodes take 2 GiB", engineMemory},
		{"node image", false, "it is pulled at the first run; where that cannot be, give --node-image", p.imageThere},
	}
}

func dockerVersion(ctx context.Context) (string, error) {
	version, err := docker(ctx, "version", "--format", "{{.Server.Version}}, API {{.Server.APIVersion}}, {{.Server.Os}}/{{.Server.Arch}}")
	return version, err
}

// sameMachine compares what the engine says of its kernel with ours.
func sameMachine(ctx context.Context) (string, error) {
	theirs, err := docker(ctx, "info", "--format", "{{.KernelVersion}}")
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("the engine runs in a virtual machine (Linux %s), this is %s", theirs, runtime.GOOS)
	}
	ours, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(ours)) != theirs {
		return "", fmt.Errorf("the engine's kernel is %s, this machine's %s: it is another machine", theirs, strings.TrimSpace(string(ours)))
	}
	return "the engine runs on this machine's kernel", nil
}

func cgroupVersion(ctx context.Context) (string, error) {
	version, err := docker(ctx, "info", "--format", "{{.CgroupVersion}}")
	if err == nil && version != "2" {
		err = fmt.Errorf("version %s", version)
	}
	return "version " + version, err
}

func limit(name string, least int) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return "not known on this machine", nil //nolint:nilerr // it is the engine's machine that counts
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && n < least {
			err = fmt.Errorf("%d, fewer than %d", n, least)
		}
		return fmt.Sprint(n), err
	}
}

func engineMemory(ctx context.Context) (string, error) {
	text, err := docker(ctx, "info", "--format", "{{.MemTotal}}")
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("docker info: %w", err)
	}
	// Each further node takes about 300 MiB without its pods.
	detail := fmt.Sprintf("%.1f GiB: about %d nodes", float64(n)/(1<<30), max(1, (n-1<<30)/(300<<20)))
	if n < clusterMemory {
		return "", errors.New(detail)
	}
	return detail, nil
}

func (p *Provider) imageThere(ctx context.Context) (string, error) {
	image := p.NodeImage
	if image == "" {
		image, _, _ = strings.Cut(defaults.Image, "@")
	}
	if _, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", image); err != nil {
		return "", fmt.Errorf("%s is not there yet", image)
	}
	return image, nil
}
