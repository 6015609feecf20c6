package cri

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestLimitsSayWhyNot(t *testing.T) {
	for _, row := range []struct {
		sentence string
		make     []string
		want     string
	}{
		{"no cgroups at all", nil, `no cgroup controller "memory"`},
		{"no CPU controller", []string{"memory"}, `no cgroup controller "cpu"`},
		{"files that are no cgroups", []string{"memory", "cpu"}, "cgroup limits cannot be set"},
	} {
		mount := t.TempDir()
		for _, c := range row.make {
			must(t, os.MkdirAll(filepath.Join(mount, c), 0o755))
			must(t, os.WriteFile(filepath.Join(mount, c, "cgroup.procs"), nil, 0o644))
		}
		ok, why := openCgroupsAt(mount, "cluster/node").usable()
		if ok || !strings.Contains(why, row.want) {
			t.Errorf("%s: %v %q, want %q", row.sentence, ok, why, row.want)
		}
	}
	if ok, why := openCgroupsAt("/no/such/mount", "c/n").usable(); ok || !strings.Contains(why, "no such file") {
		t.Errorf("no mount: %v %q", ok, why)
	}
}

func TestCgroupResources(t *testing.T) {
	in := &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes: 1 << 20, CpuShares: 1024, CpuQuota: 5000, CpuPeriod: 10000, Unified: map[string]string{"memory.high": "9"},
	}
	v1, v2 := (&cgroup{}).resources(in), (&cgroup{unified: true}).resources(in)
	if v1.Memory != 1<<20 || v1.CpuShares != 1024 || v1.CpuQuota != 5000 || v1.CpuPeriod != 10000 || v1.Unified != nil || v1.CpuWeight != 0 {
		t.Errorf("v1: %+v", v1)
	}
	if v2.Memory != 1<<20 || v2.CpuWeight != 100 || v2.Unified["memory.high"] != "9" {
		t.Errorf("v2: %+v", v2)
	}
	var none *cgroup
	if err := none.remove(); err != nil || none.oomKilled() || none.visible() != nil {
		t.Error("without cgroups nothing happens")
	}
	if fd, err := none.enter(); fd != -1 || err != nil {
		t.Errorf("enter: %d %v", fd, err)
	}
}

func TestSweepCgroupsRefusesOtherPaths(t *testing.T) {
	for _, bad := range []string{"", "..", "a/b", "../x"} {
		if err := SweepCgroups(bad); err == nil {
			t.Errorf("%q was swept", bad)
		}
	}
}

// TestE2EUnifiedCgroup runs a container in a cgroup of the unified hierarchy,
// which may have no controllers: then limits are refused, but processes belong.
func TestE2EUnifiedCgroup(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if err := unix.Mount("cgroup2", cgroupMount, "cgroup2", 0, ""); err != nil {
		t.Skipf("no unified cgroup hierarchy: %v", err)
	}
	n := newNode(t)
	g := n.cgroups
	if strings.Contains(g.why, "cannot be made") {
		t.Skip(g.why)
	}
	if _, err := os.Stat(filepath.Join(g.unified, "memory.stat")); err != nil && !strings.Contains(g.why, "memory.max") {
		t.Errorf("without controllers: %q", g.why)
	}
	g.why = ""
	sb, pod := n.pod()
	id := n.start(sb, pod, config("main", `cat /proc/self/cgroup | grep ^0:; cat /sys/fs/cgroup/cgroup.procs | head -1; sleep 1000`))
	waitFor(t, func() bool { return n.log(id) == "0::/\n1\n" })
	out, _, err := n.ExecSync(context.Background(), id, []string{"cat", "/proc/self/cgroup"}, 0)
	must(t, err)
	if !strings.Contains(string(out), "/node/"+id+"\n") {
		t.Errorf("a command run in the container is in %q", out)
	}
	must(t, n.RemovePodSandbox(context.Background(), sb))
	if left, _ := filepath.Glob(filepath.Join(g.unified, "*", "cgroup.procs")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
