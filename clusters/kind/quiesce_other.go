//go:build !linux

package kind

import (
	"context"
	"time"
)

// quiesce waits as long as the making of a container takes.
func quiesce(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
}
