package load

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"shakedown.dev/shakedown/history"
)

// watchInterval is how often the generator looks at itself.
const watchInterval = time.Second

// clockNoise is what the wall clock may move against the monotonic clock between two looks without being called a
// jump: NTP slews by at most half a millisecond a second, the rest is for reading both clocks.
const clockNoise = 20 * time.Millisecond

// watch writes down every second how the generator itself is.
func (e *Engine) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	last := look()
	for {
		select {
		case <-ctx.Done():
			e.sample(last, look())
			return
		case <-ticker.C:
		}
		now := look()
		e.sample(last, now)
		if jump := now.wall.Sub(last.wall) - now.at.Sub(last.at); jump.Abs() > clockNoise {
			e.history.Record(history.Event{Data: history.Clock{Jump: jump}})
		}
		last = now
	}
}

// glance is both clocks and the CPU time used, at one moment.
type glance struct {
	at   time.Time // monotonic
	wall time.Time // wall clock alone
	cpu  time.Duration
}

func look() glance {
	now := time.Now()
	g := glance{at: now, wall: now.Round(0)}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		g.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return g
}

func (e *Engine) sample(last, now glance) {
	g := history.Generator{RSS: resident(), Files: openFiles(), Goroutines: runtime.NumGoroutine()}
	if passed := now.at.Sub(last.at); passed > 0 {
		g.CPU = float64(now.cpu-last.cpu) / float64(passed) / float64(runtime.NumCPU())
	}
	g.LateP99, g.LateMax = e.ledger.lateness()
	for _, s := range e.streams {
		g.Streams = append(g.Streams, s.sample(now.at))
	}
	e.history.Record(history.Event{Data: g})
}

// resident is the memory this process holds, in bytes; 0 where the system does not tell.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// openFiles is the number of open descriptors; 0 where the system does not tell. Linux from 6.2 on has it as the
// folder's size; reading ten thousand names every second would be a load of its own.
func openFiles() int {
	info, err := os.Stat("/proc/self/fd")
	if err != nil {
		return 0
	}
	if n := info.Size(); n > 0 {
		return int(n)
	}
	f, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return len(names)
}
