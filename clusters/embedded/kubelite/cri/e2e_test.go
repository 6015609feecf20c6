package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const insideVar = "SHAKEDOWN_CRI_TEST_INSIDE"

// inNamespacesOfItsOwn runs the calling test again in a child that is, as a node
// is, the first process of namespaces of its own, and returns true in the child.
func inNamespacesOfItsOwn(t testing.TB, extra uintptr) bool {
	t.Helper()
	if os.Getenv(insideVar) == t.Name() {
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=60s"}
	if strings.HasPrefix(t.Name(), "Benchmark") {
		args = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$"}
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), insideVar+"="+t.Name())
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | extra,
		Pdeathsig:  syscall.SIGKILL,
	}
	if extra&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skip("the kernel does not let this user make namespaces")
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("inside: %v\n%s", err, out)
	}
	if testing.Verbose() || strings.HasPrefix(t.Name(), "Benchmark") {
		t.Logf("%s", out)
	}
	return false
}

// node is a runtime under test, with the machine's own root as the only image.
type node struct {
	*Runtime
	t   testing.TB
	dir string
	n   int
}

type images map[string]Image

func (i images) Rootfs(_ context.Context, ref string) (Image, error) {
	img, ok := i[ref]
	if !ok {
		return Image{}, fmt.Errorf("no image %q", ref)
	}
	return img, nil
}

func newNode(t testing.TB) *node {
	t.Helper()
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(netip.MustParseAddr("10.0.0.1"))}))
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	layer := filepath.Join(dir, "layer")
	must(t, os.MkdirAll(filepath.Join(layer, "opt/it"), 0o755))
	must(t, os.WriteFile(filepath.Join(layer, "opt/it/hello"), []byte("#!/bin/sh\necho hello \"$@\"\n"), 0o755))
	r, err := New(Config{
		Cluster: testCluster(t, os.Getpid()), Node: "node", Dir: filepath.Join(dir, "cri"),
		Images: images{
			"host":  {ID: "sha256:host", Layers: []string{"/"}, Env: []string{"FROM_IMAGE=yes"}},
			"hello": {ID: "sha256:hello", Layers: []string{layer, "/"}, Entrypoint: []string{"/opt/it/hello"}, Cmd: []string{"image"}},
		},
		PodCIDR: netip.MustParsePrefix("10.244.7.0/24"), NodeIP: netip.MustParseAddr("10.0.0.1"),
		Log: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	})
	must(t, err)
	n := &node{Runtime: r, t: t, dir: dir}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

func testCluster(t testing.TB, pid int) string { return fmt.Sprintf("test-%d-%s", pid, t.Name()) }

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimRight(p, "\n"))
	return len(p), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod runs a sandbox; change may adjust its configuration.
func (n *node) pod(change ...func(*runtimeapi.PodSandboxConfig)) (string, *runtimeapi.PodSandboxConfig) {
	n.t.Helper()
	n.n++
	cfg := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: fmt.Sprintf("pod%d", n.n), Uid: fmt.Sprintf("uid%d", n.n), Namespace: "default"},
		Hostname:     fmt.Sprintf("pod%d", n.n),
		LogDirectory: filepath.Join(n.dir, "logs", fmt.Sprintf("pod%d", n.n)),
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local"}, Options: []string{"ndots:5"}},
		Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: privatePID()}},
	}
	for _, c := range change {
		c(cfg)
	}
	id, err := n.RunPodSandbox(context.Background(), cfg, "")
	must(n.t, err)
	return id, cfg
}

func privatePID() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// config is a container that runs a shell script.
func config(name, script string, change ...func(*runtimeapi.ContainerConfig)) *runtimeapi.ContainerConfig {
	cfg := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "host"},
		Command:  []string{"/bin/sh", "-c", script},
		LogPath:  name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: privatePID(),
			MaskedPaths:      []string{"/proc/uptime", "/proc/no-such", "/sys/kernel"},
			ReadonlyPaths:    []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		}},
	}
	for _, c := range change {
		c(cfg)
	}
	return cfg
}

func (n *node) start(sandbox string, pod *runtimeapi.PodSandboxConfig, cfg *runtimeapi.ContainerConfig) string {
	n.t.Helper()
	id, err := n.CreateContainer(context.Background(), sandbox, cfg, pod)
	must(n.t, err)
	must(n.t, n.StartContainer(context.Background(), id))
	return id
}

// runs a container to its end and returns its status and log text.
func (n *node) runs(cfg *runtimeapi.ContainerConfig, change ...func(*runtimeapi.PodSandboxConfig)) (*runtimeapi.ContainerStatus, string) {
	n.t.Helper()
	sb, pod := n.pod(change...)
	id := n.start(sb, pod, cfg)
	st := n.ends(id)
	return st, n.log(id)
}

func (n *node) status(id string) *runtimeapi.ContainerStatus {
	n.t.Helper()
	resp, err := n.ContainerStatus(context.Background(), id, false)
	must(n.t, err)
	return resp.Status
}

// ends waits for the end of a container.
func (n *node) ends(id string) *runtimeapi.ContainerStatus {
	n.t.Helper()
	n.mu.Lock()
	run := n.containers[id].run
	n.mu.Unlock()
	select {
	case <-run.ended:
	case <-time.After(20 * time.Second):
		n.t.Fatalf("container %s does not end", id)
	}
	return n.status(id)
}

// log returns the text of a container's log, without times and tags.
func (n *node) log(id string) string {
	n.t.Helper()
	b, err := os.ReadFile(n.status(id).LogPath)
	must(n.t, err)
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(line, " ", 4)
		if f[2] == "P" {
			f[3] = strings.TrimSuffix(f[3], "\n")
		}
		out.WriteString(f[3])
	}
	return out.String()
}

func TestE2ERun(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	st, log := n.runs(config("main", `echo out; hostname; cat /etc/hostname /etc/resolv.conf; echo $FROM_IMAGE $HOSTNAME; echo $$; ls /proc | grep -c '^[0-9]'; exit 3`))
	want := "out\npod1\npod1\nsearch default.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\nyes pod1\n1\n"
	if !strings.HasPrefix(log, want) {
		t.Errorf("log:\n%s\nwant it to begin:\n%s", log, want)
	}
	if st.ExitCode != 3 || st.Reason != "Error" {
		t.Errorf("exit %d %s, want 3 Error", st.ExitCode, st.Reason)
	}
}
