package cri

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
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

func (n *node) listenInPod(sandbox, address string) (l net.Listener) {
	n.t.Helper()
	n.mu.Lock()
	s := n.sandboxes[sandbox]
	n.mu.Unlock()
	must(n.t, onThread(func() (err error) {
		if err := s.enterNetwork(); err != nil {
			return err
		}
		l, err = net.Listen("tcp", address)
		return err
	}))
	n.t.Cleanup(func() { l.Close() })
	return l
}

func (n *node) ip(sandbox string) string {
	n.t.Helper()
	resp, err := n.PodSandboxStatus(context.Background(), sandbox, false)
	must(n.t, err)
	return resp.Status.Network.Ip
}

func TestE2ENetwork(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	a, _ := n.pod()
	b, podB := n.pod(func(p *runtimeapi.PodSandboxConfig) {
		p.Linux.Sysctls = map[string]string{"net.core.somaxconn": "77", "kernel.msgmax": "4096"}
	})
	l := n.listenInPod(a, "0.0.0.0:80")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "you are %s\n", c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", n.ip(a)+":80")
	must(t, err)
	line := make([]byte, 100)
	k, _ := c.Read(line)
	if got := string(line[:k]); got != "you are 10.0.0.1\n" {
		t.Errorf("the node to a pod: %q", got)
	}
	id := n.start(b, podB, config("main", fmt.Sprintf(`cat /proc/sys/net/core/somaxconn /proc/sys/kernel/msgmax; exec 3<>/dev/tcp/%s/80; cat <&3; ls /sys/class/net`, n.ip(a)),
		func(c *runtimeapi.ContainerConfig) { c.Command[0] = "/bin/bash" }))
	n.ends(id)
	if want := "77\n4096\nyou are " + n.ip(b) + "\neth0\nlo\n"; n.log(id) != want {
		t.Errorf("pod to pod: %q, want %q", n.log(id), want)
	}
	if _, err := n.RunPodSandbox(context.Background(), &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{Sysctls: map[string]string{"vm.swappiness": "1"}}}, ""); err == nil {
		t.Error("a sysctl of the whole machine was accepted")
	}
	ns, err := n.NetNS("uid1")
	must(t, err)
	ns.Close()
	before := n.ip(a)
	must(t, n.StopPodSandbox(context.Background(), a))
	must(t, n.StopPodSandbox(context.Background(), a))
	if n.ip(a) != "" {
		t.Error("a stopped pod still shows its address")
	}
	if _, err := n.NetNS("uid1"); err == nil {
		t.Error("a stopped pod still has a network namespace")
	}
	must(t, n.RemovePodSandbox(context.Background(), a))
	next, _ := n.pod()
	if n.ip(next) == before {
		t.Errorf("address %s was used again at once", before)
	}
	routes, err := os.ReadFile("/proc/net/route")
	must(t, err)
	if lines := strings.Count(string(routes), "\npod"); lines != 2 {
		t.Errorf("%d routes to pods, want 2:\n%s", lines, routes)
	}
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
	_, err := n.CreateContainer(context.Background(), sb, config("c", "true", security(func(s *runtimeapi.LinuxContainerSecurityContext) { s.RunAsUser = int64Value(1000) })), pod)
	if err == nil || !strings.Contains(err.Error(), "user 1000 does not exist here") {
		t.Errorf("an unmapped user: %v", err)
	}
	id := n.start(sb, pod, config("tty", `sleep 100`))
	if out, _, err := n.ExecSync(context.Background(), id, []string{"id", "-u"}, 0); err != nil || string(out) != "0\n" {
		t.Errorf("exec: %q %v", out, err)
	}
}

func TestE2EHostPorts(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the nft program is not installed")
	}
	n := newNode(t)
	mapped := func(p *runtimeapi.PodSandboxConfig) {
		p.PortMappings = []*runtimeapi.PortMapping{
			{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 80, HostPort: 8081, HostIp: "10.0.0.1"}, {ContainerPort: 99},
		}
	}
	a, podA := n.pod(mapped)
	l := n.listenInPod(a, "0.0.0.0:80")
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a") }))
	for _, port := range []string{"8080", "8081"} {
		resp, err := http.Get("http://10.0.0.1:" + port)
		must(t, err)
		resp.Body.Close()
	}
	b, podB := n.pod()
	for sandbox, pod := range map[string]*runtimeapi.PodSandboxConfig{a: podA, b: podB} { // a is the hairpin
		id := n.start(sandbox, pod, config("main", `exec 3<>/dev/tcp/10.0.0.1/8080 && echo connected`, func(c *runtimeapi.ContainerConfig) { c.Command[0] = "/bin/bash" }))
		n.ends(id)
		if n.log(id) != "connected\n" {
			t.Errorf("from %s: %q", pod.Metadata.Name, n.log(id))
		}
	}
	_, err := n.RunPodSandbox(context.Background(), &runtimeapi.PodSandboxConfig{PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 1, HostPort: 8080}}}, "")
	if err == nil || !strings.Contains(err.Error(), "host ports 8080/tcp: one of them is another pod's") {
		t.Errorf("a port taken: %v", err)
	}
	must(t, n.RemovePodSandbox(context.Background(), a))
	if c, err := net.Dial("tcp", "10.0.0.1:8080"); err == nil {
		c.Close()
		t.Error("the port of a removed pod still leads somewhere")
	}
	n.pod(mapped)
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
