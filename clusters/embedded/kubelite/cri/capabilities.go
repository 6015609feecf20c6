package cri

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// capabilityNames are those of linux/capability.h, by number.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// defaultCapabilities are what containerd gives a container that asks for nothing.
const defaultCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FSETID | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_MKNOD | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP |
	1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL | 1<<unix.CAP_AUDIT_WRITE

const allCapabilities = ^uint64(0)

// boundingSet applies the pod's drops, then its additions; ALL goes first in
// each list, as in containerd.
func boundingSet(sc *runtimeapi.LinuxContainerSecurityContext) (uint64, error) {
	if sc.GetPrivileged() {
		return allCapabilities, nil
	}
	add, err := capabilityMask(sc.GetCapabilities().GetAddCapabilities())
	if err != nil {
		return 0, err
	}
	drop, err := capabilityMask(sc.GetCapabilities().GetDropCapabilities())
	if err != nil {
		return 0, err
	}
	set := uint64(defaultCapabilities)
	if add == allCapabilities {
		return allCapabilities &^ dropOf(drop), nil
	}
	return set&^drop | add&^dropOf(drop), nil
}

// dropOf keeps "drop ALL, add one" meaning that one, and "add and drop the same
// one" meaning none.
func dropOf(drop uint64) uint64 {
	if drop == allCapabilities {
		return 0
	}
	return drop
}

func capabilityMask(names []string) (uint64, error) {
	var mask uint64
	for _, n := range names {
		name := strings.TrimPrefix(strings.ToUpper(n), "CAP_")
		if name == "ALL" {
			return allCapabilities, nil
		}
		bit, ok := capabilityNumber(name)
		if !ok {
			return 0, fmt.Errorf("unknown capability %q", n)
		}
		mask |= 1 << bit
	}
	return mask, nil
}

func capabilityNumber(name string) (int, bool) {
	for i, n := range capabilityNames {
		if n == name {
			return i, true
		}
	}
	return 0, false
}
