package checks_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/reports"
)

// BenchmarkCheckAndReport judges and reports a run of a million events from its file, as `check` and
// `report` do. The goal is 5 s and 500 MB: peak-MB is the most memory that the process kept, cpu-s its processor
// time on all cores.
func BenchmarkCheckAndReport(b *testing.B) {
	path := millionEvents(b)
	forgetPeak()
	before := processorTime(b)
	b.ResetTimer()
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		m := checks.Measure(runtest.Expect(runtest.Gates()...), history.NewReader(f))
		v := checks.Judge(m, checks.Options{})
		f.Close()
		if v.Verdict != checks.Pass || m.Status.Events < 1_000_000 {
			b.Fatalf("verdict %s of %d events: %q", v.Verdict, m.Status.Events, v.Reasons)
		}
		r := reports.New(m, v)
		for _, f := range reports.Formats() {
			if err := f.Report(io.Discard, r); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "cpu-s")
	b.ReportMetric(peak(b), "peak-MB")
}

// forgetPeak gives back what making the history took and begins the peak anew (proc(5), clear_refs).
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)
}

// peak is the most memory the process kept, in MB.
func peak(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs /proc")
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib * 1024 / 1e6
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// millionEvents writes the run once and keeps nothing of it in memory. SHAKEDOWN_BENCH_HISTORY names a file to use again.
func millionEvents(b *testing.B) string {
	path := os.Getenv("SHAKEDOWN_BENCH_HISTORY")
	if path != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	} else {
		path = filepath.Join(b.TempDir(), checks.HistoryFile)
	}
	if err := runtest.WriteHistory(path, runtest.RolloutUnderFire(runtest.Config{Seed: 1, Rate: 1990, Standin: true})); err != nil {
		b.Fatal(err)
	}
	return path
}
