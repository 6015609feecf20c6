package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/clusters"
)

// What the embedded cluster promises: three Ready nodes in 5 s, gone in 1 s,
// 1.2 GB resident, 500 hollow nodes Ready in 60 s, on two idle cores.
//
//	go test -run '^$' -bench . -benchtime 3x ./test/e2e

func BenchmarkUp(b *testing.B)    { upAndDown(b, 0) }
func BenchmarkUp500(b *testing.B) { upAndDown(b, 500) }

// upAndDown measures the start-up as the time of an operation, and reports the
// end and the memory beside it.
func upAndDown(b *testing.B, hollow int) {
	ctx := context.Background()
	var down, pss float64
	for b.Loop() {
		c, err := up(ctx, uniqueName("bench"), func(s *clusters.Spec) { s.HollowNodes, s.NodeMonitorGrace = hollow, 0 })
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		facts, err := c.Facts(ctx)
		if err != nil {
			b.Fatal(err)
		}
		pss += float64(residentBelow(facts.PID)) / (1 << 20)
		began := time.Now()
		if err := provider.Down(ctx, c.Name()); err != nil {
			b.Fatal(err)
		}
		down += time.Since(began).Seconds()
		b.StartTimer()
	}
	b.ReportMetric(down/float64(b.N), "s/down")
	b.ReportMetric(pss/float64(b.N), "MB-PSS")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/up")
	b.ReportMetric(0, "ns/op")
}

// residentBelow is the memory of a process and all below it, shared pages
// counted once (proportional set size).
func residentBelow(pid int) int64 {
	var sum int64
	for _, p := range append(children(pid), pid) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p))
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
			if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == "Pss:" {
				kb, _ := strconv.ParseInt(f[1], 10, 64)
				sum += kb << 10
			}
		}
	}
	return sum
}
