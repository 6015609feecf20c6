package checks_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/reports"
)

// BenchmarkCheckAndReport judges and reports a run of a million events from its file, as `check` and
// `report` do. The goal is 5 s and 500 MB; peak-MB is the most memory the process had from the system.
func BenchmarkCheckAndReport(b *testing.B) {
	path := millionEvents(b)
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
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.Sys-mem.HeapReleased)/1e6, "now-MB")
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
