package cri

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
