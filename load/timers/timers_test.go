package timers

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestEachAtItsMoment sets, sets again and stops entries at random: each must be called exactly at the last moment
// it was set to, and one that was stopped never.
func TestEachAtItsMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		moments := rapid.SliceOfN(rapid.IntRange(0, 100), 1, 40).Draw(rt, "moments")
		again := rapid.SliceOfN(rapid.IntRange(-1, 100), 0, len(moments)).Draw(rt, "again")
		wrong := false
		synctest.Test(t, func(*testing.T) {
			q, start := New(), time.Now()
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { q.Run(ctx); close(done) }()
			called := make([][]time.Duration, len(moments))
			entries := make([]Entry, len(moments))
			for i, at := range moments {
				entries[i].Do = func() { called[i] = append(called[i], time.Since(start)) }
				q.Set(&entries[i], start.Add(time.Duration(at+10)*time.Millisecond))
			}
			time.Sleep(time.Millisecond)
			for i, at := range again {
				if at < 0 {
					q.Stop(&entries[i])
					moments[i] = -1
					continue
				}
				q.Set(&entries[i], start.Add(time.Duration(at+10)*time.Millisecond))
				moments[i] = at
			}
			time.Sleep(time.Second)
			cancel()
			<-done
			for i, at := range moments {
				switch {
				case at < 0:
					wrong = wrong || len(called[i]) > 0
				default:
					wrong = wrong || len(called[i]) != 1 || called[i][0] != time.Duration(at+10)*time.Millisecond
				}
			}
			wrong = wrong || q.Len() != 0
		})
		if wrong {
			rt.Fatal("an entry was called at another moment than its own")
		}
	})
}

// TestFromDo sets an entry from its own call.
func TestFromDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n := 0
		var e Entry
		e.Do = func() { n++; q.Set(&e, time.Now().Add(time.Second)) }
		q.Set(&e, time.Now().Add(time.Second/2))
		q.Run(ctx)
		if n != 10 {
			t.Errorf("called %d times in ten seconds, want 10", n)
		}
	})
}

// BenchmarkSet moves one of ten thousand entries.
func BenchmarkSet(b *testing.B) {
	q := New()
	entries := make([]Entry, 10_000)
	start := time.Now().Add(time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range entries {
		q.Set(&entries[i], start.Add(time.Duration(rng.Int64N(int64(time.Minute)))))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Set(&entries[i%len(entries)], start.Add(time.Duration(rng.Int64N(int64(time.Minute)))))
	}
}
