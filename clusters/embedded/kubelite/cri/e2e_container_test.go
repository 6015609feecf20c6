package cri

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func int64Value(v int64) *runtimeapi.Int64Value { return &runtimeapi.Int64Value{Value: v} }

func security(change func(*runtimeapi.LinuxContainerSecurityContext)) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) { change(c.Linux.SecurityContext) }
}

// TestE2EScripts runs one container per row and compares what it printed.
func TestE2EScripts(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	vol := filepath.Join(n.dir, "vol")
	must(t, os.MkdirAll(vol, 0o755))
	must(t, os.WriteFile(filepath.Join(vol, "file"), []byte("volume\n"), 0o644))
	mount := func(m ...*runtimeapi.Mount) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) { c.Mounts = append(c.Mounts, m...) }
	}
	for _, row := range []struct {
		name, script, want string
		change             func(*runtimeapi.ContainerConfig)
	}{
		{"the root can be written, and the machine's is not", `echo x > /etc/shakedown-test && cat /etc/shakedown-test`, "x\n", nil},
		{"a read-only root cannot", `(echo x > /etc/y) 2>&1 || echo refused`, "/bin/sh: 1: cannot create /etc/y: Read-only file system\nrefused\n",
			security(func(s *runtimeapi.LinuxContainerSecurityContext) { s.ReadonlyRootfs = true })},
		{"runs as the user and groups asked for", `id -u; id -g; id -G; grep NoNewPrivs /proc/self/status | cut -f2; echo $HOME`, "1234\n2345\n2345 77\n1\n/\n",
			security(func(s *runtimeapi.LinuxContainerSecurityContext) {
				s.RunAsUser, s.RunAsGroup, s.SupplementalGroups, s.NoNewPrivs = int64Value(1234), int64Value(2345), []int64{77}, true
			})},
		{"a user is looked up by name, with its groups", `id -un; echo $HOME`, "daemon\n/usr/sbin\n",
			security(func(s *runtimeapi.LinuxContainerSecurityContext) { s.RunAsUsername = "daemon" })},
		{"a missing working directory is made", `pwd`, "/made/for/this\n", func(c *runtimeapi.ContainerConfig) { c.WorkingDir = "/made/for/this" }},
		{"capabilities are the default set", `grep CapEff /proc/self/status | cut -f2`, "00000000a80425fb\n", nil},
		{"all dropped, one added", `grep -h 'CapEff\|CapBnd' /proc/self/status | cut -f2`, "0000000000000400\n0000000000000400\n",
			security(func(s *runtimeapi.LinuxContainerSecurityContext) {
				s.Capabilities = &runtimeapi.Capability{DropCapabilities: []string{"ALL"}, AddCapabilities: []string{"NET_BIND_SERVICE"}}
			})},
		{"devices are there and work", `cd /dev; ls; echo lost > null; head -c3 zero | od -An -tx1; stat -c %a shm`,
			"fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n 00 00 00\n1777\n", nil},
		{"kernel settings are read-only", `(echo 1 > /proc/sys/net/ipv4/ip_forward) 2>&1 || echo refused; touch /sys/x 2>/dev/null || echo refused; wc -c < /proc/uptime; ls /sys/kernel | wc -l`,
			"/bin/sh: 1: cannot create /proc/sys/net/ipv4/ip_forward: Read-only file system\nrefused\nrefused\n0\n0\n", nil},
		{"a privileged container may change them", `echo 1 > /proc/sys/net/ipv4/ip_forward && cat /proc/sys/net/ipv4/ip_forward; test -e /dev/loop0 || ls /dev | wc -l | grep -qv '^14$' && echo devices`, "1\ndevices\n",
			security(func(s *runtimeapi.LinuxContainerSecurityContext) { s.Privileged = true })},
		{"volumes through a symbolic link of the image land inside the root", `cat /var/run/secrets/vol/file; cat /run/secrets/vol/file`, "volume\nvolume\n",
			mount(&runtimeapi.Mount{HostPath: vol, ContainerPath: "/var/run/secrets/vol"})},
		{"a read-only file over an existing one", `cat /etc/os-release; (echo y >> /etc/os-release) 2>&1 || echo refused`, "volume\n/bin/sh: 1: cannot create /etc/os-release: Read-only file system\nrefused\n",
			mount(&runtimeapi.Mount{HostPath: filepath.Join(vol, "file"), ContainerPath: "/etc/os-release", Readonly: true})},
		{"one volume inside another, whatever the order", `cat /a/b/file; ls /a`, "volume\nb\nfile\n",
			mount(&runtimeapi.Mount{HostPath: vol, ContainerPath: "/a/b"}, &runtimeapi.Mount{HostPath: vol, ContainerPath: "/a"})},
		{"a host path that does not exist is made", `ls -d /new`, "/new\n", mount(&runtimeapi.Mount{HostPath: filepath.Join(n.dir, "no/such"), ContainerPath: "/new"})},
		{"an image as a volume is read-only", `cat /img/opt/it/hello | head -1; touch /img/x 2>/dev/null || echo refused`, "#!/bin/sh\nrefused\n",
			mount(&runtimeapi.Mount{ContainerPath: "/img", Image: &runtimeapi.ImageSpec{Image: "hello"}})},
		{"the image's entrypoint and arguments", ``, "hello image\n", func(c *runtimeapi.ContainerConfig) { c.Image.Image, c.Command = "hello", nil }},
		{"arguments alone keep the entrypoint", ``, "hello pod\n", func(c *runtimeapi.ContainerConfig) {
			c.Image.Image, c.Command, c.Args = "hello", nil, []string{"pod"}
		}},
		{"a container's terminal is its own", `tty; stty size; test -t 1 && echo terminal; echo $TERM`, "/dev/pts/0\r\n0 0\r\nterminal\r\nxterm\r\n", func(c *runtimeapi.ContainerConfig) { c.Tty = true }},
		{"descriptors of the node do not leak in", `ls -x /proc/self/fd`, "0  1  2  3\n", nil},
		{"only the pod's own mounts remain", `grep -c ' /mnt\| /work' /proc/self/mounts`, "0\n", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config("main", row.script)
			if row.change != nil {
				row.change(cfg)
			}
			n.t = t
			if _, got := n.runs(cfg); got != row.want {
				t.Errorf("got\n%q\nwant\n%q", got, row.want)
			}
		})
	}
	n.t = t
	if _, err := os.Stat("/etc/shakedown-test"); err == nil {
		t.Error("a container wrote into the machine's root")
	}
}

func TestE2EStop(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	ctx := context.Background()
	sb, pod := n.pod()
	for _, row := range []struct {
		name, script string
		grace        int64
		code         int32
		reason       string
		change       func(*runtimeapi.ContainerConfig)
	}{
		{"a program that ends on SIGTERM ends with its own code", `trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done`, 10, 5, "Error", nil},
		{"one that ends well is completed", `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`, 10, 0, "Completed", nil},
		{"one that does not listen is killed", `echo up; while :; do sleep 0.05; done`, 1, 137, "Error", nil},
		{"no grace is a kill", `trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done`, 0, 137, "Error", nil},
		{"the pod's own stop signal", `trap 'exit 6' USR1; echo up; while :; do sleep 0.05; done`, 10, 6, "Error",
			func(c *runtimeapi.ContainerConfig) { c.StopSignal = runtimeapi.Signal_SIGUSR1 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config("c"+strings.ReplaceAll(row.name, " ", "-"), row.script)
			if row.change != nil {
				row.change(cfg)
			}
			id := n.start(sb, pod, cfg)
			waitFor(t, func() bool { return n.log(id) == "up\n" })
			must(t, n.StopContainer(ctx, id, row.grace))
			st := n.status(id)
			if st.ExitCode != row.code || st.Reason != row.reason || st.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				t.Errorf("%s: exit %d %s, want %d %s", st.State, st.ExitCode, st.Reason, row.code, row.reason)
			}
			must(t, n.StopContainer(ctx, id, row.grace)) // again: nothing to do
			must(t, n.RemoveContainer(ctx, id))
			must(t, n.RemoveContainer(ctx, id))
		})
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 15 s in vain")
		}
	}
}

func TestE2EStartErrors(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	ctx := context.Background()
	for _, row := range []struct {
		name, want string
		change     func(*runtimeapi.ContainerConfig)
	}{
		{"no such program", `exec: "nope": executable file not found in $PATH`, func(c *runtimeapi.ContainerConfig) { c.Command = []string{"nope"} }},
		{"no such path", `exec: "/no/pe": stat /no/pe: no such file or directory`, func(c *runtimeapi.ContainerConfig) { c.Command = []string{"/no/pe"} }},
		{"not a program", `exec: "/etc/passwd": /etc/passwd: permission denied`, func(c *runtimeapi.ContainerConfig) { c.Command = []string{"/etc/passwd"} }},
		{"an unknown user", `user "nobody-at-all"`, security(func(s *runtimeapi.LinuxContainerSecurityContext) { s.RunAsUsername = "nobody-at-all" })},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config("c", "true", row.change)
			id, err := n.CreateContainer(ctx, sb, cfg, pod)
			must(t, err)
			if err := n.StartContainer(ctx, id); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("start: %v, want %q", err, row.want)
			}
			st := n.status(id)
			if st.ExitCode != 128 || st.Reason != "StartError" || !strings.Contains(st.Message, row.want) {
				t.Errorf("exit %d %s %q, want 128 StartError with %q", st.ExitCode, st.Reason, st.Message, row.want)
			}
		})
	}
	if _, err := n.CreateContainer(ctx, sb, config("c", "", func(c *runtimeapi.ContainerConfig) { c.Command = nil }), pod); err == nil || !strings.Contains(err.Error(), "no command specified") {
		t.Errorf("create without command: %v", err)
	}
	if got := inNodeChildren(t); len(got) > 0 {
		t.Errorf("processes left: %v", got)
	}
}

// inNodeChildren lists what runs on the node beside the runtime itself.
func inNodeChildren(t *testing.T) []int {
	t.Helper()
	var out []int
	for _, pid := range pids() {
		if pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

func TestE2ESharedProcessNamespace(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	shared := func(s *runtimeapi.NamespaceOption) { s.Pid = runtimeapi.NamespaceMode_POD }
	sb, pod := n.pod(func(p *runtimeapi.PodSandboxConfig) { shared(p.Linux.SecurityContext.NamespaceOptions) })
	own := security(func(s *runtimeapi.LinuxContainerSecurityContext) { shared(s.NamespaceOptions) })
	first := n.start(sb, pod, config("first", `sleep 1000 & exec sleep 2000`, own))
	second := n.start(sb, pod, config("second", `for i in $(seq 100); do pgrep -x sleep -a | grep 2000 && break; sleep 0.05; done; test $$ != 1 && echo not first`, own))
	n.ends(second)
	if got := n.log(second); !strings.HasSuffix(got, " sleep 2000\nnot first\n") {
		t.Errorf("second saw %q", got)
	}
	debug := n.start(sb, pod, config("debug", `pgrep -x sleep -a | grep -c 2000`, security(func(s *runtimeapi.LinuxContainerSecurityContext) {
		s.NamespaceOptions.Pid, s.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, first
	})))
	n.ends(debug)
	if got := n.log(debug); got != "1\n" {
		t.Errorf("a container aimed at the first sees %q of its processes", got)
	}
	must(t, n.StopContainer(context.Background(), first, 0))
	waitFor(t, func() bool { return len(inNodeChildren(t)) <= 1 }) // the pause process
	must(t, n.RemovePodSandbox(context.Background(), sb))
	waitFor(t, func() bool { return len(inNodeChildren(t)) == 0 })
}

func TestE2EHostNamespaces(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	host := func(o *runtimeapi.NamespaceOption) {
		o.Pid, o.Network, o.Ipc = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE
	}
	sb, pod := n.pod(func(p *runtimeapi.PodSandboxConfig) { host(p.Linux.SecurityContext.NamespaceOptions) })
	id := n.start(sb, pod, config("main", `cat /proc/1/comm; cat /proc/net/fib_trie | grep -c 10.0.0.1; sleep 777 & exec sleep 888`,
		security(func(s *runtimeapi.LinuxContainerSecurityContext) { host(s.NamespaceOptions) })))
	waitFor(t, func() bool { return strings.Count(n.log(id), "\n") == 2 })
	comm, err := os.ReadFile("/proc/1/comm")
	must(t, err)
	if got := n.log(id); !strings.HasPrefix(got, string(comm)) || strings.HasSuffix(got, "\n0\n") {
		t.Errorf("the node's first process and address as seen in the container: %q", got)
	}
	resp, err := n.PodSandboxStatus(context.Background(), sb, false)
	must(t, err)
	if ip := resp.Status.Network.Ip; ip != "" {
		t.Errorf("address %q, want none of its own", ip)
	}
	if out, _, err := n.ExecSync(context.Background(), id, []string{"cat", "/proc/1/comm"}, 0); err != nil || string(out) != string(comm) {
		t.Errorf("exec sees %q %v", out, err)
	}
	must(t, n.StopContainer(context.Background(), id, 0))
	for _, pid := range inNodeChildren(t) { // the orphan is ours to reap now
		if st, err := readStat(pid); err == nil && st.state != 'Z' {
			t.Errorf("process %d outlives its container", pid)
		}
	}
	seen := reapSeen(os.Getpid(), nil, n.owns)
	reapSeen(os.Getpid(), seen, n.owns)
	if left := inNodeChildren(t); len(left) > 0 {
		t.Errorf("zombies left: %v", left)
	}
}

func TestE2ESubPathBelowReadOnlyTree(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	outer, inner := filepath.Join(n.dir, "outer"), filepath.Join(n.dir, "outer", "inner")
	must(t, os.MkdirAll(inner, 0o755))
	must(t, unix.Mount("tmpfs", inner, "tmpfs", 0, ""))
	for _, row := range []struct {
		recursive bool
		want      string
	}{{false, "outer ro\ninner rw\n"}, {true, "outer ro\ninner ro\n"}} {
		cfg := config("main", `for d in outer inner; do p=/v; test $d = inner && p=/v/inner; touch $p/x 2>/dev/null && echo $d rw || echo $d ro; done`)
		cfg.Mounts = []*runtimeapi.Mount{{HostPath: outer, ContainerPath: "/v", Readonly: true, RecursiveReadOnly: row.recursive,
			Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER}}
		if _, got := n.runs(cfg); got != row.want {
			t.Errorf("recursive %v: %q, want %q", row.recursive, got, row.want)
		}
	}
}

// TestE2EManyLayers has more layers than mount(2) takes paths for.
func TestE2EManyLayers(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	var layers []string
	for i := range 80 {
		l := filepath.Join(n.dir, strings.Repeat("long", 20), "layer"+strconv.Itoa(i))
		must(t, os.MkdirAll(filepath.Join(l, "etc"), 0o755))
		must(t, os.WriteFile(filepath.Join(l, "etc/top"), []byte(strconv.Itoa(i)), 0o644))
		must(t, os.WriteFile(filepath.Join(l, "etc/only"+strconv.Itoa(i)), nil, 0o644))
		layers = append(layers, l)
	}
	n.cfg.Images.(images)["many"] = Image{ID: "sha256:many", Layers: append(layers, "/")}
	if _, log := n.runs(config("main", `cat /etc/top; ls /etc/only* | wc -l`, func(c *runtimeapi.ContainerConfig) { c.Image.Image = "many" })); log != "080\n" {
		t.Errorf("got %q, want the topmost file and all 80", log)
	}
}
