package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
)

// What a cluster could leave on a machine, and how each is counted.

type leftovers struct{ mounts, links, files []string }

// look takes stock of everything but processes, which are followed one by one.
func look(t *testing.T) leftovers {
	t.Helper()
	var l leftovers
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	l.mounts = strings.Split(string(mounts), "\n")
	l.links = glob(t, "/sys/class/net/*")
	l.files = append(ours(glob(t, "/tmp/*")), glob(t, "/run/*")...)
	l.files = append(l.files, glob(t, os.TempDir()+"/*")...)
	l.files = append(l.files, glob(t, "/sys/fs/cgroup/*/shakedown/"+uniqueName("*"))...)
	for _, s := range [][]string{l.mounts, l.links, l.files} {
		sort.Strings(s)
	}
	return l
}

// ours keeps the names that something of a cluster would choose: /tmp belongs to
// everybody on this machine.
func ours(files []string) []string {
	return slices.DeleteFunc(files, func(f string) bool {
		return !slices.ContainsFunc([]string{"kube", "etcd", "hollow", "cri", "shim", "static-pods", "pod-logs"}, func(word string) bool {
			return strings.HasPrefix(filepath.Base(f), word)
		})
	})
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// descendants lists pid and all below it.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	return append([]int{pid}, children(pid)...)
}

// children lists all processes below pid, parents first.
func children(pid int) []int {
	below := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, d := range dirs {
		stat, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		child, _ := strconv.Atoi(filepath.Base(d))
		parent, _ := strconv.Atoi(fields[1])
		below[parent] = append(below[parent], child)
	}
	out := append([]int{}, below[pid]...)
	for i := 0; i < len(out); i++ {
		out = append(out, below[out[i]]...)
	}
	return out
}

// alive is false for a zombie: that is whoever's who should have waited for it.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := strings.TrimSpace(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return rest[0] != 'Z' && rest[0] != 'X'
}

// TestE2EKillOfAnyProcess kills one process of a cluster after the other, a new
// cluster each time, and looks at what is left of it.
func TestE2EKillOfAnyProcess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx := t.Context()
	c, err := up(ctx, uniqueName("victims"), small)
	if err != nil {
		t.Fatal(err)
	}
	// The image service is no descendant: it works outside the namespaces.
	victims := append(components(t, facts(t, c).PID), imageService)
	if err := provider.Down(ctx, c.Name()); err != nil {
		t.Fatal(err)
	}
	if len(victims) < 9 {
		t.Fatalf("a cluster has at least nine processes, found %v", victims)
	}
	before := look(t)
	for _, victim := range victims {
		t.Run(victim, func(t *testing.T) {
			c, err := up(ctx, uniqueName("victims"), small)
			if err != nil {
				t.Fatal(err)
			}
			pid := facts(t, c).PID
			all := append(descendants(t, pid), imageServiceOf(t, c.Name()))
			i := slices.IndexFunc(all, func(p int) bool { return commandLine(p) == victim })
			if i < 0 {
				t.Fatalf("no process %q", victim)
			}
			target := all[i]
			if err := syscall.Kill(target, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone(t, c.Name(), all, before)
		})
	}
}

func small(s *clusters.Spec) { s.Nodes = 1 }

func facts(t *testing.T, c clusters.Cluster) clusters.Facts {
	t.Helper()
	f, err := c.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// components are the lasting processes of the cluster, each kind once.
func components(t *testing.T, pid int) []string {
	t.Helper()
	var out []string
	for _, p := range descendants(t, pid) {
		if c := commandLine(p); strings.HasPrefix(c, "kubelite ") && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

const imageService = "kubelite images"

// imageServiceOf finds the cluster's image service by its command line.
func imageServiceOf(t *testing.T, cluster string) int {
	t.Helper()
	for _, d := range glob(t, "/proc/[0-9]*") {
		data, err := os.ReadFile(d + "/cmdline")
		if err == nil && strings.HasSuffix(string(data), "\x00images\x00"+cluster+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(d))
			return pid
		}
	}
	t.Fatalf("cluster %s has no image service", cluster)
	return 0
}

// commandLine is the first two words, which name a component.
func commandLine(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	words := strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
	if len(words) < 2 {
		return ""
	}
	return filepath.Base(words[0]) + " " + words[1]
}

// gone waits until nothing of the cluster is left.
func gone(t *testing.T, name string, pids []int, before leftovers) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		problems := remains(t, name, pids, before)
		if len(problems) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind:\n%s", strings.Join(problems, "\n"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func remains(t *testing.T, name string, pids []int, before leftovers) []string {
	t.Helper()
	var out []string
	for _, p := range pids {
		if alive(p) {
			out = append(out, "process "+commandLine(p))
		}
	}
	now := look(t)
	for what, pair := range map[string][2][]string{
		"mount": {before.mounts, now.mounts},
		"link":  {before.links, now.links}, "file": {before.files, now.files},
	} {
		for _, x := range added(pair[0], pair[1]) {
			out = append(out, what+" "+x)
		}
	}
	if _, err := clusters.Find(t.Context(), provider, name); err == nil {
		out = append(out, "its name is still taken")
	}
	return out
}

func added(before, now []string) []string {
	have := map[string]bool{}
	for _, b := range before {
		have[b] = true
	}
	var out []string
	for _, n := range now {
		if !have[n] {
			out = append(out, n)
		}
	}
	return out
}

// TestE2EKillOfTheCommand kills `shakedown cluster up` at moments of its
// start-up, and once while it holds a cluster in the foreground.
func TestE2EKillOfTheCommand(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	before := look(t)
	for _, after := range []time.Duration{0, 50 * time.Millisecond, time.Second, 6 * time.Second} {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
			t.Run(fmt.Sprint(sig, " after ", after), func(t *testing.T) {
				name := uniqueName("cut")
				cmd := exec.Command("../../bin/shakedown", "cluster", "up", "--foreground", "--name", name, "--nodes", "1", "--progress", "plain")
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(after)
				all := descendants(t, cmd.Process.Pid)
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatalf("%v\n%s", err, out.String())
				}
				_ = cmd.Wait() // killed: that is the point
				gone(t, name, all, before)
			})
		}
	}
}

func TestE2ETwoClustersDoNotSeeEachOther(t *testing.T) {
	other, err := up(t.Context(), uniqueName("other"), small)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := provider.Down(context.Background(), other.Name()); err != nil {
			t.Error(err)
		}
	}()
	s := newSpace(t.Context(), t, shared)
	s.apply(plainPod)
	pod := s.ready("p", 1)[0]
	list, err := clientset(t, other).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("the other cluster has pods %v (%v)", list.Items, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if conn, err := other.DialContext(ctx, "tcp", pod.Status.PodIP+":8080"); err == nil {
		conn.Close()
		t.Error("a pod of one cluster answers in the other")
	}
}

func TestE2EHollowNodes(t *testing.T) {
	c, err := up(t.Context(), uniqueName("hollow"), small, func(s *clusters.Spec) { s.HollowNodes = 20 })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := provider.Down(context.Background(), c.Name()); err != nil {
			t.Error(err)
		}
	}()
	s := newSpace(t.Context(), t, c)
	s.apply(strings.Replace(onePerNode, "spec: {containers", "spec: {tolerations: [{operator: Exists}], containers", 1))
	s.apply(strings.Replace(plainPod, "labels: {app: p}", "labels: {app: shy}", 1))
	if p := s.ready("shy", 1)[0]; p.Spec.NodeName != "node1" {
		t.Errorf("a pod that did not ask for it is on %s", p.Spec.NodeName)
	}
	s.eventually("DaemonSet on all nodes", func() error {
		d, err := s.cs.AppsV1().DaemonSets(s.name).Get(s.ctx, "web", metav1.GetOptions{})
		s.must(err)
		if d.Status.NumberReady != 21 {
			return fmt.Errorf("%d of 21 ready", d.Status.NumberReady)
		}
		return nil
	})
}
