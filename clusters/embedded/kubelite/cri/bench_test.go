package cri

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkPod makes a pod, runs /bin/true in it and removes both. cpu-ms/op is
// what the machine spent on it, the kernel and the program included.
func BenchmarkPod(b *testing.B) {
	if !inNamespacesOfItsOwn(b, 0) {
		return
	}
	n := newNode(b)
	ctx := context.Background()
	start := cpuTime(b)
	for b.Loop() {
		sb, pod := n.pod()
		cfg := config("main", "")
		cfg.Command = []string{"/bin/true"}
		n.ends(n.start(sb, pod, cfg))
		must(b, n.RemovePodSandbox(ctx, sb))
	}
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkContainer starts a container in a standing pod, up to its execve.
func BenchmarkContainer(b *testing.B) {
	if !inNamespacesOfItsOwn(b, 0) {
		return
	}
	n := newNode(b)
	sb, pod := n.pod()
	start := cpuTime(b)
	for b.Loop() {
		cfg := config("main", "")
		cfg.Command = []string{"/bin/true"}
		n.start(sb, pod, cfg)
	}
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkExecSync is what an exec probe costs.
func BenchmarkExecSync(b *testing.B) {
	if !inNamespacesOfItsOwn(b, 0) {
		return
	}
	n := newNode(b)
	sb, pod := n.pod()
	id := n.start(sb, pod, config("main", "sleep 1000"))
	start := cpuTime(b)
	for b.Loop() {
		_, _, err := n.ExecSync(context.Background(), id, []string{"/bin/true"}, time.Second)
		must(b, err)
	}
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

func cpuTime(b *testing.B) time.Duration {
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		must(b, unix.Getrusage(who, &u))
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}
