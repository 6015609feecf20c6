package e2e

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"fmt"

	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/scenarios"
)

// cpu is the processor time this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory this process keeps, in KiB.
func resident(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs /proc")
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib
		}
	}
	return 0
}

// BenchmarkHold holds b.N interactive terminals through the stand-in's proxy, its processes being others: only our
// side counts. It reports what one costs, and the processor time of opening it. Run it with -benchtime 2000x.
func BenchmarkHold(b *testing.B) {
	l := start(b, "off")
	p := plan(0, time.Hour, 10*time.Second)
	p.Streams[0].Mix[0].Session.Keepalive, p.Streams[0].Mix[0].Session.Timeout = scenarios.Span(15*time.Second), scenarios.Span(time.Minute)
	p.Validity.Control = 0
	p.Streams[0].Arrival = scenarios.Arrival{Closed: &scenarios.Closed{Held: b.N, Over: scenarios.Span(time.Duration(b.N) * 8 * time.Millisecond)}}
	book := newBook()
	e, err := load.New(load.Config{Plan: p, History: book, Targets: l, Users: l.users, RecordingMode: "off"})
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	rss, goroutines, used := resident(b), runtime.NumGoroutine(), cpu(b)
	b.ResetTimer()
	e.Start(context.Background())
	opened := time.Now()
	for {
		s := e.Stats()
		if s.Held == b.N {
			break
		}
		if s.Refused+s.Dropped+s.Stalled+s.Missed > 0 {
			s.LastOpens = nil
			b.Fatalf("%+v", s)
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.ReportMetric(float64(b.N)/time.Since(opened).Seconds(), "opens/s")
	b.ReportMetric(float64((cpu(b)-used).Microseconds())/float64(b.N), "cpu-µs/open")
	debug.FreeOSMemory()
	b.ReportMetric(float64(resident(b)-rss)/float64(b.N), "rss-KiB/session")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(b.N), "goroutines/session")
	used = cpu(b)
	time.Sleep(5 * time.Second)
	b.ReportMetric(100*float64(cpu(b)-used)/float64(5*time.Second), "%core-held")
	b.StopTimer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s := e.Stop(ctx); s.Dropped+s.Stalled > 0 {
		s.LastOpens = nil
		b.Errorf("%+v", s)
	}
	if err := book.Close(); err != nil {
		b.Error(err)
	}
}
