package cri

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestE2ELogRotation(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	id := n.start(sb, pod, config("main", `echo before; while [ ! -e /go ]; do sleep 0.02; done; echo after; printf 'no end'`))
	waitFor(t, func() bool { return n.log(id) == "before\n" })
	path := n.status(id).LogPath
	must(t, os.Rename(path, path+".1"))
	must(t, n.ReopenContainerLog(context.Background(), id))
	_, _, err := n.ExecSync(context.Background(), id, []string{"touch", "/go"}, 0)
	must(t, err)
	n.ends(id)
	if got := n.log(id); got != "after\nno end" {
		t.Errorf("new log %q", got)
	}
	if err := n.ReopenContainerLog(context.Background(), id); err == nil {
		t.Error("the log of an ended container was opened again")
	}
}

func TestE2EOutOfMemory(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	if ok, why := n.Limits(); !ok {
		t.Skipf("limits do not hold here: %s", why)
	}
	must(t, SweepCgroups(n.cfg.Cluster)) // someone tidies up an idle node: it must not matter
	limited := func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 32 << 20, CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102}
	}
	st, log := n.runs(config("hog", `cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max; cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max; exec tail /dev/zero`, limited))
	if st.ExitCode != 137 || st.Reason != "OOMKilled" || log != "33554432\n50000\n" {
		t.Errorf("exit %d %s, log %q; want 137 OOMKilled and the limits", st.ExitCode, st.Reason, log)
	}
	sb, pod := n.pod()
	id := n.start(sb, pod, config("busy", `while :; do :; done`, limited))
	_, _, err := n.ExecSync(context.Background(), id, []string{"tail", "/dev/zero"}, 0)
	if err == nil {
		t.Error("a command run in the container is not under its limit")
	}
	stats, err := n.ContainerStats(context.Background(), id)
	must(t, err)
	if stats.Cpu.UsageCoreNanoSeconds.Value == 0 || stats.Memory.WorkingSetBytes.Value == 0 {
		t.Errorf("stats %v", stats)
	}
	must(t, n.UpdateContainerResources(context.Background(), id, &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}}))
	must(t, n.RemovePodSandbox(context.Background(), sb))
	for _, d := range append([]string{n.cgroups.unified}, n.cgroups.v1["memory"], n.cgroups.v1["cpu"]) {
		if left, _ := filepath.Glob(filepath.Join(d, "*", "cgroup.procs")); d != "" && len(left) > 0 {
			t.Errorf("cgroups left: %v", left)
		}
	}
}

// TestE2ENothingLeft ends a node with pods on it as a power cut does.
func TestE2ENothingLeft(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		before := leftovers(t)
		inNamespacesOfItsOwn(t, 0)
		waitFor(t, func() bool { return leftovers(t) == before })
		cluster := testCluster(t, 1) // the node was the first process of its namespace
		waitFor(t, func() bool { return SweepCgroups(cluster) == nil })
		if left, _ := filepath.Glob(filepath.Join(cgroupMount, "*", cgroupParent, cluster)); len(left) > 0 {
			t.Errorf("cgroups left: %v", left)
		}
		return
	}
	n := newNode(t)
	for range 3 {
		sb, pod := n.pod()
		n.start(sb, pod, config("main", `sleep 54321 & sleep 54321`))
	}
	if err := SweepCgroups(n.cfg.Cluster); err == nil && n.cgroups.why == "" {
		t.Error("cgroups in use were swept")
	}
	waitFor(t, func() bool { return len(inNodeChildren(t)) >= 3 })
	os.Stdout.WriteString("PASS\n")
	os.Exit(0) // no clean-up runs
}

// leftovers counts what a node could leave on the machine.
func leftovers(t *testing.T) string {
	t.Helper()
	procs := 0
	for _, pid := range pids() {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(b, []byte("54321")) {
			procs++
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	links, err := os.ReadDir("/sys/class/net")
	must(t, err)
	return fmt.Sprintf("%d processes, %d mounts, %d links", procs, bytes.Count(mounts, []byte("\n")), len(links))
}

func TestE2EClose(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	for range 3 {
		sb, pod := n.pod()
		n.start(sb, pod, config("main", `sleep 1000 & sleep 1000`))
	}
	fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	before := fds()
	must(t, n.Close(context.Background()))
	if left := inNodeChildren(t); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	links, _ := net.Interfaces()
	if len(links) != 1 {
		t.Errorf("links left: %v", links)
	}
	if after := fds(); after >= before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

// TestE2EOrdinaryUser runs in a user namespace with a single id mapped.
func TestE2EOrdinaryUser(t *testing.T) {
	if !inNamespacesOfItsOwn(t, unix.CLONE_NEWUSER) {
		return
	}
	n := newNode(t)
	st, log := n.runs(config("main", `id -u; echo x > /etc/x && cat /etc/x; head -c2 /dev/zero | od -An -tx1; ls /usr/bin/env; echo $$`))
	if st.ExitCode != 0 || !strings.HasPrefix(log, "0\nx\n 00 00\n/usr/bin/env\n1\n") {
		t.Errorf("exit %d %s, log %q", st.ExitCode, st.Reason, log)
	}
	sb, pod := n.pod()
	for want, ask := range map[string]func(*runtimeapi.LinuxContainerSecurityContext){
		"user 1000 does not exist here":                func(s *runtimeapi.LinuxContainerSecurityContext) { s.RunAsUser = int64Value(1000) },
		"group 1001 does not exist here":               func(s *runtimeapi.LinuxContainerSecurityContext) { s.RunAsGroup = int64Value(1001) },
		"supplementary group 1002 does not exist here": func(s *runtimeapi.LinuxContainerSecurityContext) { s.SupplementalGroups = []int64{1002} },
	} {
		_, err := n.CreateContainer(context.Background(), sb, config("c", "true", security(ask)), pod)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	id := n.start(sb, pod, config("tty", `sleep 100`))
	if out, _, err := n.ExecSync(context.Background(), id, []string{"id", "-u"}, 0); err != nil || string(out) != "0\n" {
		t.Errorf("exec: %q %v", out, err)
	}
}

func TestE2EEvents(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	ctx, cancel := context.WithCancel(context.Background())
	ch, ended, connected := make(chan *runtimeapi.ContainerEventResponse, 100), make(chan error, 1), make(chan struct{})
	go func() {
		ended <- n.GetContainerEvents(ctx, ch, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(connected) })
	}()
	<-connected
	sb, pod := n.pod()
	id := n.start(sb, pod, config("main", "exit 3"))
	n.ends(id)
	must(t, n.RemovePodSandbox(ctx, sb))
	var got []string
	for len(got) < 7 {
		ev := <-ch
		who := "pod"
		if ev.ContainerId == id {
			who = "container"
		}
		got = append(got, who+" "+strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(ev.ContainerEventType.String(), "CONTAINER_"), "_EVENT")))
	}
	want := "pod started, container created, container started, container stopped, pod stopped, container deleted, pod deleted"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func TestE2EStats(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	for _, why := range []string{n.cgroups.why, "as if there were none"} {
		n.cgroups.why = why
		sb, pod := n.pod()
		id := n.start(sb, pod, config("busy", `head -c 300000 /dev/zero > /var/file; while :; do :; done`))
		waitFor(t, func() bool {
			st, err := n.ContainerStats(context.Background(), id)
			must(t, err)
			return st.Cpu.UsageCoreNanoSeconds.Value > 50e6 && st.Memory.WorkingSetBytes.Value > 0 && st.WritableLayer.UsedBytes.Value >= 300000
		})
		pods, err := n.ListPodSandboxStats(context.Background(), nil)
		must(t, err)
		linux := pods[0].Linux
		if len(pods) != 1 || linux.Cpu.UsageCoreNanoSeconds.Value < 50e6 || linux.Process.ProcessCount.Value == 0 || linux.Network.DefaultInterface.Name != "eth0" || len(linux.Containers) != 1 {
			t.Errorf("limits %q: %v", why, pods)
		}
		must(t, n.RemovePodSandbox(context.Background(), sb))
	}
}

// TestE2ESecondLife starts a runtime where one ended without a word.
func TestE2ESecondLife(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	n.start(sb, pod, config("main", `sleep 1000`))
	stray := filepath.Join(n.cgroups.v1["memory"], "stray")
	if ok, _ := n.Limits(); ok && n.cgroups.unified == "" {
		must(t, os.Mkdir(stray, 0o755))
	}
	for _, pid := range inNodeChildren(t) {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	waitFor(t, func() bool { return len(inNodeChildren(t)) == 0 })
	again, err := New(n.cfg)
	must(t, err)
	defer again.Close(context.Background())
	if pods, _ := again.ListPodSandbox(context.Background(), nil); len(pods) != 0 {
		t.Errorf("pods of an earlier life: %v", pods)
	}
	for _, d := range []string{stray, filepath.Join(n.cfg.Dir, "sandboxes", sb, "hostname"), filepath.Join(n.cfg.Dir, "containers", sb)} {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s of an earlier life is still there", d)
		}
	}
}
