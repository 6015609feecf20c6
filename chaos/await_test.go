package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitEnds: with what is waited for, with the time, and at once where it cannot come any more.
func TestAwaitEnds(t *testing.T) {
	for _, row := range []struct {
		why  string
		look func(n int) error
		want error
		took time.Duration
	}{
		{"it comes", func(n int) error {
			if n < 5 {
				return errors.New("not yet")
			}
			return nil
		}, nil, 4 * lookEvery},
		{"it does not come", func(int) error { return errors.New("not yet") }, context.DeadlineExceeded, time.Minute},
		{"it cannot come any more", func(int) error { return fmt.Errorf("the container has ended: %w", errOver) }, errOver, 0},
	} {
		t.Run(row.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began, n := time.Now(), 0
				saw, err := await(ctx, func(context.Context) (string, error) {
					n++
					return "it", row.look(n)
				})
				if !errors.Is(err, row.want) || err == nil && saw != "it" || time.Since(began) != row.took {
					t.Errorf("saw %q after %s: %v", saw, time.Since(began), err)
				}
			})
		})
	}
}
