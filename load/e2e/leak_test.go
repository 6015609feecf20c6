package e2e

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"shakedown.dev/shakedown/load"
)

// TestNothingStaysBehind: after Stop no goroutine and no descriptor of the engine is left, whatever the sessions did.
func TestNothingStaysBehind(t *testing.T) {
	l := start(t, "off", "STANDIN_FAULTS=half-open:every=4,after=300ms;drop-silently:every=5,after=300ms;refuse-share:every=6")
	before, open := runtime.NumGoroutine(), descriptors(t)
	book := newBook()
	e, err := load.New(load.Config{Plan: plan(20, time.Second, 50*time.Millisecond), History: book, Targets: l, Users: l.users, RecordingMode: "off"})
	if err != nil {
		t.Fatal(err)
	}
	e.Start(t.Context())
	time.Sleep(4 * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stats := e.Stop(ctx)
	if stats.Dropped == 0 || stats.Ended != stats.Due || stats.Held != 0 || stats.Opening != 0 {
		t.Errorf("%+v", stats)
	}
	_ = book.events(t)
	for deadline := time.Now().Add(5 * time.Second); descriptors(t) > open; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, %d before", descriptors(t), open)
		}
	}
	// The library's goroutines see a connection's end a moment later.
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// descriptors is how many this process has open, but for the one that it takes to count them.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	return len(all)
}
