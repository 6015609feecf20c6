package node

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"golang.org/x/sys/unix"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

// machine tells the kubelet about the hardware. Every node has all of it, as
// every node of a kind cluster has.
type machine struct{ *cadvisortest.Fake }

// MachineInfo has the machine's processors and memory.
func (m machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	out, err := m.Fake.MachineInfo()
	if err != nil {
		return nil, err
	}
	out.NumCores = runtime.NumCPU()
	out.MemoryCapacity, err = totalMemory()
	return out, err
}

func totalMemory() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("sysinfo: %w", err)
	}
	return uint64(info.Totalram) * uint64(info.Unit), nil
}

// VersionInfo has the kernel's release and the machine's distribution.
func (m machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	return &cadvisorapi.VersionInfo{
		KernelVersion:      unix.ByteSliceToString(u.Release[:]),
		ContainerOsVersion: osName(),
	}, nil
}

// ContainerInfoV2 gives the root "container", the machine as /proc shows it:
// /stats/summary and /metrics/resource of the kubelet begin with it.
func (m machine) ContainerInfoV2(string, cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	limit, err := totalMemory()
	if err != nil {
		return nil, err
	}
	busy, err := busyTime()
	if err != nil {
		return nil, err
	}
	memory, err := memoryUsage()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return map[string]cadvisorapiv2.ContainerInfo{"/": {
		Spec: cadvisorapiv2.ContainerSpec{
			HasCpu: true, HasMemory: true, CreationTime: now,
			Memory: cadvisorapiv2.MemorySpec{Limit: limit},
		},
		Stats: []*cadvisorapiv2.ContainerStats{{
			Timestamp: now, Memory: memory,
			Cpu: &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: uint64(busy)}},
		}},
	}}, nil
}

// tick is the unit of /proc/stat, USER_HZ, which is 100 on every architecture
// that Go runs on.
const tick = 10 * time.Millisecond

// busyTime is what all processors have worked since the machine's start.
func busyTime() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var busy time.Duration
	for i, field := range strings.Fields(line) {
		// cpu user nice system idle iowait irq softirq steal guest guest_nice;
		// guests are counted in user already.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		busy += time.Duration(n) * tick
	}
	return busy, nil
}

func memoryUsage() (*cadvisorapi.MemoryStats, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bytes := map[string]uint64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, _ := strings.Cut(s.Text(), ":")
		var kb uint64
		if _, err := fmt.Sscan(rest, &kb); err == nil {
			bytes[name] = kb << 10
		}
	}
	return &cadvisorapi.MemoryStats{
		Usage:      bytes["MemTotal"] - bytes["MemFree"],
		WorkingSet: bytes["MemTotal"] - bytes["MemAvailable"],
	}, nil
}

// osName is the distribution's name for itself.
func osName() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return "Linux"
}
