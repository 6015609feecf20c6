package e2e

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fmt"

	"shakedown.dev/shakedown/history"
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
	e, err := load.New(load.Config{Plan: p, History: book, Targets: l, Users: l.users, RecordingMode: "off", Precedence: true})
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
	each := (cpu(b) - used) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/open")
	b.ReportMetric(float64(time.Second/each), "opens/s/core")
	b.ReportMetric(float64(b.N)/time.Since(opened).Seconds(), "opens/s") // as planned, if nothing was in the way
	debug.FreeOSMemory()
	b.ReportMetric(float64(resident(b)-rss)/float64(b.N), "rss-KiB/session")
	b.ReportMetric(float64(resident(b))/1024, "rss-MiB")
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

// scheduleRate is half of what one core can open (the goal is 400 a second), while the stand-in has the other core.
const scheduleRate = 200

// BenchmarkSchedule opens sessions at half load for b.N arrivals and reports how late they began.
func BenchmarkSchedule(b *testing.B) {
	l := start(b, "off")
	p := plan(scheduleRate, 0, time.Second)
	session := &p.Streams[0].Mix[0].Session
	*session = scenarios.Session{
		Kind: scenarios.SSH, Behaviour: "command", Command: "true", Keepalive: scenarios.Span(15 * time.Second), Timeout: scenarios.Span(time.Minute),
	}
	p.Validity.Control = 0
	book := newBook()
	e, err := load.New(load.Config{Plan: p, History: book, Targets: l, Users: l.users, RecordingMode: "off", Precedence: true})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	e.Start(context.Background())
	time.Sleep(time.Duration(b.N) * time.Second / scheduleRate)
	b.StopTimer()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := e.Stop(ctx)
	var late []time.Duration
	for x := range of[history.Session](book.events(b)) {
		late = append(late, x.Start-x.Due)
	}
	if len(late) == 0 {
		return // b.N is 1 at first
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[(len(late)-1)*99/100].Microseconds())/1000, "late-p99-ms")
	b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "late-max-ms")
	b.ReportMetric(float64(s.Refused+s.Missed), "not-opened")
}
