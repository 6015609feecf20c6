package authclient

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheAnswersWhileTheAuthIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache[int]
		away := errors.New("away")
		loads := 0
		load := func(v int, err error) func() (int, error) {
			return func() (int, error) { loads++; return v, err }
		}
		if _, err := c.get(time.Second, load(0, away)); !errors.Is(err, away) {
			t.Errorf("with nothing known: got %v, want the error", err)
		}
		for _, row := range []struct {
			name        string
			sleep       time.Duration
			load        func() (int, error)
			want, loads int
		}{
			{"the first answer is kept", 0, load(1, nil), 1, 2},
			{"and given again", 500 * time.Millisecond, load(2, nil), 1, 2},
			{"until its time is over", time.Second, load(3, nil), 3, 3},
			{"an old answer is better than an error", 2 * time.Second, load(0, away), 3, 4},
			{"and is replaced as soon as can be", 0, load(4, nil), 4, 5},
		} {
			time.Sleep(row.sleep)
			if got, err := c.get(time.Second, row.load); err != nil || got != row.want || loads != row.loads {
				t.Errorf("%s: got %d and %v after %d loads, want %d after %d", row.name, got, err, loads, row.want, row.loads)
			}
		}
	})
}
