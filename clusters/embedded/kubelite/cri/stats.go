package cri

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// clockTicks is USER_HZ, which is 100 on every architecture that Go runs on.
const clockTicks = 100

// usage is a container's at one moment. Without cgroups it is the sum over its
// processes, so it lacks the time of those that ended without being waited for.
type usage struct {
	at             time.Time
	cpu            uint64 // nanoseconds since the start
	memory         uint64 // bytes, all that is charged
	working        uint64 // bytes, less what the kernel can take back at once
	rss            uint64
	minflt, majflt uint64
	processes      uint64
}

func (run *running) usage() usage {
	if u, ok := run.cgroup.usage(); ok {
		return u
	}
	u := usage{at: time.Now()}
	page := uint64(os.Getpagesize())
	for _, pid := range inMountNS(run.mountNS) {
		st, err := readStat(pid)
		if err != nil {
			continue
		}
		u.processes++
		u.cpu += st.ticks * uint64(time.Second) / clockTicks
		u.rss += st.residentPages * page
		u.minflt += st.minflt
		u.majflt += st.majflt
	}
	u.memory, u.working = u.rss, u.rss
	return u
}

func (c *cgroup) usage() (usage, bool) {
	if c == nil {
		return usage{}, false
	}
	st, err := c.manager.GetStats()
	if err != nil {
		return usage{}, false
	}
	mem := st.MemoryStats
	inactive, rss := "total_inactive_file", "total_rss"
	if c.unified {
		inactive, rss = "inactive_file", "anon"
	}
	u := usage{
		at: time.Now(), cpu: st.CpuStats.CpuUsage.TotalUsage, memory: mem.Usage.Usage, working: mem.Usage.Usage,
		rss: mem.Stats[rss], minflt: mem.Stats["pgfault"], majflt: mem.Stats["pgmajfault"], processes: st.PidsStats.Current,
	}
	u.working -= min(u.working, mem.Stats[inactive])
	return u, true
}

// rate is nanoseconds of CPU per second since an earlier sample.
func (u usage) rate(before usage) *runtimeapi.UInt64Value {
	elapsed := u.at.Sub(before.at)
	if before.at.IsZero() || elapsed <= 0 || u.cpu < before.cpu {
		return nil
	}
	return uint64Value(uint64(float64(u.cpu-before.cpu) / elapsed.Seconds()))
}

func uint64Value(v uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: v} }

func (u usage) cpuStats(before usage) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{
		Timestamp: u.at.UnixNano(), UsageCoreNanoSeconds: uint64Value(u.cpu), UsageNanoCores: u.rate(before),
	}
}

func (u usage) memoryStats() *runtimeapi.MemoryUsage {
	return &runtimeapi.MemoryUsage{
		Timestamp: u.at.UnixNano(), WorkingSetBytes: uint64Value(u.working), UsageBytes: uint64Value(u.memory),
		RssBytes: uint64Value(u.rss), PageFaults: uint64Value(u.minflt), MajorPageFaults: uint64Value(u.majflt),
	}
}

// minSample is the least time between two samples that a rate is made of.
const minSample = time.Second

// sample returns a container's usage now and the one that a rate counts from.
func (r *Runtime) sample(run *running) (now, before usage) {
	now = run.usage()
	r.mu.Lock()
	defer r.mu.Unlock()
	before = run.earlier
	if now.at.Sub(run.latest.at) >= minSample {
		run.earlier, run.latest = run.latest, now
		before = run.earlier
	}
	return now, before
}

func (r *Runtime) containerStats(c *container, run *running) (*runtimeapi.ContainerStats, usage) {
	now, before := r.sample(run)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: c.cfg.GetMetadata(), Labels: c.cfg.GetLabels(), Annotations: c.cfg.GetAnnotations(),
		},
		Cpu: now.cpuStats(before), Memory: now.memoryStats(), WritableLayer: r.writableLayer(c),
	}, now
}

// writableLayer adds up what the container wrote into its root.
func (r *Runtime) writableLayer(c *container) *runtimeapi.FilesystemUsage {
	var bytes, inodes uint64
	filepath.WalkDir(filepath.Join(c.dir, "upper"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			inodes++
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += uint64(st.Blocks) * 512 // stat(2)'s unit
			}
		}
		return nil
	})
	return &runtimeapi.FilesystemUsage{
		Timestamp: time.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: r.cfg.Dir},
		UsedBytes: uint64Value(bytes), InodesUsed: uint64Value(inodes),
	}
}

func (r *Runtime) ContainerStats(_ context.Context, id string) (*runtimeapi.ContainerStats, error) {
	c, run, err := r.running(id)
	if err != nil {
		return nil, err
	}
	st, _ := r.containerStats(c, run)
	return st, nil
}

// ListContainerStats covers the running containers.
func (r *Runtime) ListContainerStats(_ context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	var out []*runtimeapi.ContainerStats
	for c, run := range r.allRunning(f.GetPodSandboxId()) {
		if f.GetId() != "" && f.Id != c.id || !selects(f.GetLabelSelector(), c.cfg.GetLabels()) {
			continue
		}
		st, _ := r.containerStats(c, run)
		out = append(out, st)
	}
	return out, nil
}

// allRunning lists what runs now, in one pod or, for "", in all.
func (r *Runtime) allRunning(sandbox string) map[*container]*running {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[*container]*running{}
	for _, c := range r.containers {
		if c.lifecycle.running() && (sandbox == "" || c.sandbox.id == sandbox) {
			out[c] = c.run
		}
	}
	return out
}

func (r *Runtime) PodSandboxStats(_ context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	r.mu.Lock()
	s := r.sandboxes[id]
	r.mu.Unlock()
	if s == nil {
		return nil, notFound("pod sandbox", id)
	}
	return r.podStats(s), nil
}

func (r *Runtime) ListPodSandboxStats(_ context.Context, f *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	r.mu.Lock()
	var pods []*sandbox
	for _, s := range r.sandboxes {
		if s.ready && (f.GetId() == "" || f.Id == s.id) && selects(f.GetLabelSelector(), s.cfg.GetLabels()) {
			pods = append(pods, s)
		}
	}
	r.mu.Unlock()
	out := make([]*runtimeapi.PodSandboxStats, len(pods))
	for i, s := range pods {
		out[i] = r.podStats(s)
	}
	return out, nil
}

// podStats adds up the pod's containers, for a pod has no cgroup of its own.
func (r *Runtime) podStats(s *sandbox) *runtimeapi.PodSandboxStats {
	linux := &runtimeapi.LinuxPodSandboxStats{Network: r.networkStats(s)}
	var total usage
	var rate *runtimeapi.UInt64Value
	for c, run := range r.allRunning(s.id) {
		st, u := r.containerStats(c, run)
		linux.Containers = append(linux.Containers, st)
		total.add(u)
		if n := st.Cpu.UsageNanoCores; n != nil {
			rate = uint64Value(rate.GetValue() + n.Value)
		}
	}
	if total.at.IsZero() {
		total.at = time.Now()
	}
	linux.Cpu, linux.Memory = total.cpuStats(usage{}), total.memoryStats()
	linux.Cpu.UsageNanoCores = rate
	linux.Process = &runtimeapi.ProcessUsage{Timestamp: total.at.UnixNano(), ProcessCount: uint64Value(total.processes)}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: s.id, Metadata: s.cfg.GetMetadata(), Labels: s.cfg.GetLabels(), Annotations: s.cfg.GetAnnotations(),
		},
		Linux: linux,
	}
}

func (u *usage) add(v usage) {
	if v.at.After(u.at) {
		u.at = v.at
	}
	u.cpu += v.cpu
	u.memory += v.memory
	u.working += v.working
	u.rss += v.rss
	u.minflt += v.minflt
	u.majflt += v.majflt
	u.processes += v.processes
}

// networkStats reads the node's end of the pod's link, whose directions are the
// other way round.
func (r *Runtime) networkStats(s *sandbox) *runtimeapi.NetworkUsage {
	s.op.Lock()
	name := s.link
	s.op.Unlock()
	if name == "" {
		return nil
	}
	link, err := r.net.node.LinkByName(name)
	if err != nil || link.Attrs().Statistics == nil {
		return nil
	}
	st := link.Attrs().Statistics
	return &runtimeapi.NetworkUsage{
		Timestamp: time.Now().UnixNano(),
		DefaultInterface: &runtimeapi.NetworkInterfaceUsage{
			Name:    "eth0",
			RxBytes: uint64Value(st.TxBytes), RxErrors: uint64Value(st.TxErrors),
			TxBytes: uint64Value(st.RxBytes), TxErrors: uint64Value(st.RxErrors),
		},
	}
}

// ListMetricDescriptors and ListPodSandboxMetrics are the cAdvisor metrics' way
// through the CRI, which is off by default; there are none here.
func (r *Runtime) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, nil
}

func (r *Runtime) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, nil
}
