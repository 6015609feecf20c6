package cri

import (
	"os"
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
