package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cgroupParent is the first component of every cgroup that a cluster makes. They
// outlive the cluster's processes, so SweepCgroups finds them by it.
const cgroupParent = "shakedown"

const cgroupMount = "/sys/fs/cgroup"

// controllersV1 are those this runtime sets limits with or reads usage from.
var controllersV1 = []string{"memory", "cpu", "cpuacct", "pids"}

// cgroupRoot is where a node's containers have their cgroups.
type cgroupRoot struct {
	node    string            // CLUSTER/NODE
	unified string            // the node's directory in the unified hierarchy, or ""
	v1      map[string]string // the node's directory per controller
	why     string            // not empty: limits do not hold
}

// openCgroups finds out by trying: a cgroup is made and a limit written.
func openCgroups(cluster, node string) *cgroupRoot {
	return openCgroupsAt(cgroupMount, cluster+"/"+node)
}

func openCgroupsAt(mount, node string) *cgroupRoot {
	g := &cgroupRoot{node: node, v1: map[string]string{}}
	var st unix.Statfs_t
	if err := unix.Statfs(mount, &st); err != nil {
		g.why = fmt.Sprintf("%s: %v", mount, err)
		return g
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		g.unified = filepath.Join(mount, cgroupParent, node)
		g.sweep()
		g.why = tryUnified(g.unified)
		return g
	}
	for _, c := range controllersV1 {
		if _, err := os.Stat(filepath.Join(mount, c, "cgroup.procs")); err == nil {
			g.v1[c] = filepath.Join(mount, c, cgroupParent, node)
		}
	}
	for _, c := range []string{"memory", "cpu"} {
		if g.v1[c] == "" {
			g.why = fmt.Sprintf("no cgroup controller %q under %s", c, mount)
			return g
		}
	}
	g.sweep()
	for _, dir := range g.v1 {
		if err := makeCgroup(dir); err != nil {
			g.why = fmt.Sprintf("cgroups cannot be made: %v", err)
			return g
		}
	}
	if f, err := os.OpenFile(filepath.Join(g.v1["memory"], "memory.limit_in_bytes"), os.O_WRONLY, 0); err != nil {
		g.why = fmt.Sprintf("cgroup limits cannot be set: %v", err)
	} else {
		f.Close()
	}
	return g
}

// makeCgroup tries again when another cluster, on its way out, has just removed
// the parent that both share.
func makeCgroup(dir string) (err error) {
	for range 3 {
		if err = os.MkdirAll(dir, 0o755); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

func tryUnified(dir string) string {
	probe := filepath.Join(dir, "probe")
	m, err := fs2.NewManager(&cgroups.Cgroup{Resources: &cgroups.Resources{SkipDevices: true}}, probe)
	if err == nil {
		err = m.Apply(-1)
	}
	if err != nil {
		return fmt.Sprintf("cgroups cannot be made: %v", err)
	}
	defer m.Destroy()
	for _, f := range []string{"memory.max", "cpu.max"} {
		w, err := os.OpenFile(filepath.Join(probe, f), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Sprintf("cgroup limits cannot be set: %v", err)
		}
		w.Close()
	}
	return ""
}

func (g *cgroupRoot) usable() (bool, string) { return g.why == "", g.why }

// prepare makes the directories on which the shim shows a container its cgroup.
func (g *cgroupRoot) prepare(r root) error {
	if g.why != "" || g.unified != "" {
		return nil
	}
	if err := r.mountFS("/sys/fs/cgroup", "tmpfs", attrKernel, "mode=0755"); err != nil {
		return err
	}
	for c := range g.v1 {
		fd, err := r.mkdirAll("/sys/fs/cgroup/" + c)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// cgroup is one container's; all methods do nothing on nil.
type cgroup struct {
	manager cgroups.Manager
	unified bool
	v1      []string // controllers, where not unified
}

// create makes the container's cgroup with its limits; nil where none hold.
func (g *cgroupRoot) create(c *container) (*cgroup, error) {
	if g.why != "" {
		return nil, nil
	}
	cg := &cgroup{unified: g.unified != ""}
	cfg := &cgroups.Cgroup{Resources: cg.resources(c.cfg.GetLinux().GetResources())}
	var err error
	if g.unified != "" {
		cg.manager, err = fs2.NewManager(cfg, filepath.Join(g.unified, c.id))
	} else {
		paths := map[string]string{}
		for name, dir := range g.v1 {
			paths[name] = filepath.Join(dir, c.id)
			cg.v1 = append(cg.v1, name)
		}
		cg.manager, err = fs.NewManager(cfg, paths)
	}
	if err == nil {
		err = cg.manager.Apply(-1)
	}
	if err == nil {
		err = cg.manager.Set(cfg.Resources)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cgroup: %w", err), cg.remove())
	}
	return cg, nil
}

// resources translates what the kubelet asks for.
func (c *cgroup) resources(in *runtimeapi.LinuxContainerResources) *cgroups.Resources {
	out := &cgroups.Resources{
		SkipDevices: true,
		Memory:      in.GetMemoryLimitInBytes(),
		CpuShares:   uint64(in.GetCpuShares()),
		CpuQuota:    in.GetCpuQuota(),
		CpuPeriod:   uint64(in.GetCpuPeriod()),
	}
	if c.unified {
		out.Unified = in.GetUnified()
		out.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(out.CpuShares)
	}
	return out
}

func (c *cgroup) set(in *runtimeapi.LinuxContainerResources) error {
	if err := c.manager.Set(c.resources(in)); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// visible names what the shim mounts for the program to see.
func (c *cgroup) visible() []string {
	switch {
	case c == nil:
		return nil
	case c.unified:
		return []string{""}
	}
	return c.v1
}

func (c *cgroup) oomKilled() bool {
	if c == nil {
		return false
	}
	n, err := c.manager.OOMKillCount()
	return err == nil && n > 0
}

func (c *cgroup) remove() error {
	if c == nil || c.manager == nil {
		return nil
	}
	return c.manager.Destroy()
}

// enter prepares the calling thread so that its next child starts in the cgroup:
// on the unified hierarchy by the returned descriptor, else (-1) by moving the
// thread itself, which v1 allows and a child inherits. Both spare the kernel the
// lock that moving a whole process takes, some 10 ms of waiting per controller.
func (c *cgroup) enter() (fd int, err error) {
	if c == nil {
		return -1, nil
	}
	if c.unified {
		fd, err := unix.Open(c.manager.Path(""), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open cgroup", Path: c.manager.Path(""), Err: err}
		}
		return fd, nil
	}
	for _, name := range c.v1 {
		if err := os.WriteFile(filepath.Join(c.manager.Path(name), "tasks"), []byte("0"), 0); err != nil {
			return -1, fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return -1, nil
}
