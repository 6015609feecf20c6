package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// check is one thing that doctor looks at: run says what it saw, or why it is not as it should be.
type check struct {
	name     string
	required bool
	do       string
	run      func(context.Context) (detail string, err error)
}

// Diagnose looks at everything that the cluster stands on, by doing it in namespaces that vanish again
// rather than by reading version numbers.
func (p *Provider) Diagnose(ctx context.Context) []Finding {
	var findings []Finding
	for _, c := range p.checks() {
		f := Finding{Name: c.name, Required: c.required, OK: true}
		detail, err := c.run(ctx)
		if f.Detail = detail; err != nil {
			f.OK, f.Detail, f.Do = false, err.Error(), c.do
		}
		findings = append(findings, f)
	}
	return findings
}

func (p *Provider) checks() []check {
	return []check{
		{"Linux", true, useKind, kernelRelease},
		{"kubelite", true, "run make build, or set $SHAKEDOWN_KUBELITE", func(context.Context) (string, error) { return p.findKubelite() }},
		{"namespaces", true, "run as root, or: " + userNamespaceSwitch() + "; or " + useKind, inSandbox("true", "user, mount, PID, network, UTS and IPC")},
		{"user ids", false, "install uidmap, and give this user lines in /etc/subuid and /etc/subgid", identities},
		{"nftables", true, "install nftables, and load the kernel module nf_tables; or " + useKind, nftables},
		{"veth", true, "install iproute2, and load the kernel module veth; or " + useKind, inSandbox("ip link add name left type veth peer name right", "links between pods")},
		{"forwarding", true, "use a kernel with CONFIG_INET and /proc/sys/net writable in a namespace; or " + useKind,
			inSandbox("echo 1 >/proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward can be set")},
		{"overlay", true, "load the kernel module overlay; or " + useKind, inSandbox(overlayOn("/tmp/lower"), "root filesystems of containers")},
		{"overlay over /", false, "run as root: images of the form host:DIR need it", inSandbox(overlayOn("/"), "images of the form host:DIR")},
		{"bandwidth", false, "load the kernel module sch_tbf; faults that limit bandwidth need it", inSandbox("ip link set lo up; tc qdisc add dev lo root tbf rate 1mbit burst 32k latency 10ms", "tc tbf")},
		{"latency", false, "load the kernel module sch_netem; faults that delay packets need it", inSandbox("ip link set lo up; tc qdisc add dev lo root netem delay 1ms", "tc netem")},
		{"cgroups", false, "run as root on a machine with cgroup v2 writable: without it memory and CPU limits of containers do not hold", cgroups},
		{"memory", true, "free some: the control plane and three nodes take 1.2 GiB", memory},
		{"open files", false, "raise the hard limit (ulimit -Hn): each session takes two", openFiles},
		{"disk", true, "free some, or point $XDG_CACHE_HOME at another disk", p.disk},
	}
}

func kernelRelease(context.Context) (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s, %d CPUs", unix.ByteSliceToString(u.Release[:]), runtime.GOARCH, runtime.NumCPU()), nil
}

// inSandbox runs a shell script in the namespaces that a cluster would get.
func inSandbox(script, detail string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return detail, sandbox(ctx, script)
	}
}

func overlayOn(lower string) string {
	return "mount -t tmpfs none /tmp && mkdir /tmp/lower /tmp/upper /tmp/work /tmp/merged && " +
		"mount -t overlay -o lowerdir=" + lower + ",upperdir=/tmp/upper,workdir=/tmp/work none /tmp/merged"
}

func nftables(ctx context.Context) (string, error) {
	path, err := lookProgram("nft")
	if err != nil {
		return "", errors.New("the program nft is missing")
	}
	const rules = "add table inet t; add chain inet t c { type nat hook output priority 0; }; " +
		"add rule inet t c ip daddr 10.0.0.1 numgen random mod 2 vmap { 0 : accept, 1 : accept }"
	return path, sandbox(ctx, path+" '"+rules+"'")
}

// identities says which users there are inside.
func identities(ctx context.Context) (string, error) {
	if os.Geteuid() == 0 {
		return "root, all ids", nil
	}
	const rootOnly = ": containers can run as root only"
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if _, _, ok := subIDRange(file); !ok {
			return "", fmt.Errorf("no range for this user in %s%s", file, rootOnly)
		}
	}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := lookProgram(program); err != nil {
			return "", fmt.Errorf("the program %s is missing%s", program, rootOnly)
		}
	}
	if err := sandbox(ctx, `for map in uid gid; do test "$(wc -l </proc/self/${map}_map)" -gt 1; done`); err != nil {
		return "", fmt.Errorf("newuidmap or newgidmap refused the ranges of this user%s", rootOnly)
	}
	_, count, _ := subIDRange("/etc/subuid")
	return fmt.Sprintf("root and %d others", count), nil
}

// cgroups asks whether a control group for the cluster could be made, without making one.
func cgroups(context.Context) (string, error) {
	const mount = "/sys/fs/cgroup"
	var s unix.Statfs_t
	if err := unix.Statfs(mount, &s); err != nil || s.Type != unix.CGROUP2_SUPER_MAGIC {
		return "", errors.New("no cgroup v2 at " + mount)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	dir := mount + strings.TrimPrefix(strings.TrimSpace(string(own)), "0::")
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return "", fmt.Errorf("%s is not writable", dir)
	}
	controllers, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return "", err
	}
	for _, want := range []string{"memory", "cpu"} {
		if !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " "+want+" ") {
			return "", fmt.Errorf("no %s controller in %s", want, dir)
		}
	}
	return "memory and CPU limits can hold", nil
}

const (
	firstNodes = 1200 << 20 // control plane and three idle nodes, as measured by the benchmark
	perNode    = 160 << 20  // one kubelet, the shared text of the binary counted again
)

func memory(context.Context) (string, error) {
	available, err := memAvailable()
	if err != nil {
		return "", err
	}
	if available < firstNodes {
		return "", fmt.Errorf("%.1f GiB available", gib(available))
	}
	return fmt.Sprintf("%.1f GiB available: up to %d idle nodes", gib(available), min(3+(available-firstNodes)/perNode, 64)), nil
}

func memAvailable() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}

func gib(n uint64) float64 { return float64(n) / (1 << 30) }

func openFiles(context.Context) (string, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return "", err
	}
	if limit.Max < 16384 {
		return "", fmt.Errorf("hard limit %d: about %d sessions", limit.Max, limit.Max/2)
	}
	return fmt.Sprintf("hard limit %d: about %d sessions", limit.Max, limit.Max/2), nil
}

func (p *Provider) disk(context.Context) (string, error) {
	dir, err := p.cacheDir()
	if err != nil {
		return "", err
	}
	free, err := freeBytes(dir)
	if err != nil {
		return "", err
	}
	if free < minFree {
		return "", fmt.Errorf("%d MiB free in %s: want %d", free>>20, dir, minFree>>20)
	}
	return fmt.Sprintf("%.1f GiB free in %s", gib(free), dir), nil
}

// sandboxLimit is far more than any of the scripts needs.
const sandboxLimit = 10 * time.Second
