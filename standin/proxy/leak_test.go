package proxy

import (
	"runtime"
	"testing"
	"time"
)

// TestSessionsLeaveNoGoroutines: what sessions take, on the client's, the proxy's and the node's side, is given back
// when they end, so that a run which tells of a leak tells of one. The first round starts what is started but once.
func TestSessionsLeaveNoGoroutines(t *testing.T) {
	const sessions = 20
	for _, mode := range []string{"node", "node-sync"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, inMode(mode))
			var before int
			for range 2 {
				before = fewest()
				for range sessions {
					s := r.open("standin-echo cat")
					s.say(r, "hello", "hello")
					s.in.Close()
					if err := s.Wait(); err != nil {
						t.Fatal(err)
					}
					s.inner.Close()
					s.outer.Close()
				}
			}
			// Ends are seen a moment later; one for each second session would be a leak.
			r.eventually("goroutines come back", func() bool { return runtime.NumGoroutine() < before+sessions/2 })
		})
	}
}

// fewest waits until goroutines come back no more.
func fewest() int {
	for last := runtime.NumGoroutine(); ; {
		time.Sleep(300 * time.Millisecond)
		now := runtime.NumGoroutine()
		if now >= last {
			return now
		}
		last = now
	}
}
