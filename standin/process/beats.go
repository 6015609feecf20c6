package process

import (
	"context"
	"fmt"
	"time"

	"github.com/gravitational/teleport/api/types"
)

// leastBeat keeps a large time factor from making heartbeats a load of their own.
const leastBeat = 250 * time.Millisecond

// BeatEvery is how often a service looks whether it is to announce itself.
func (s Scale) BeatEvery() time.Duration {
	return max(s.Of(HeartbeatCheck), min(leastBeat, HeartbeatCheck))
}

// Beat keeps a service announced until ctx ends: describe's answer goes to the auth every few minutes, and in between
// refresh asks it for something as a sign of life. Each try is told to e.Heartbeat.
func (e Env) Beat(ctx context.Context, component string, refresh func(context.Context) error, describe func() types.Server) {
	ticker := time.NewTicker(e.Scale.BeatEvery())
	defer ticker.Stop()
	var announced time.Time
	for {
		err := refresh(ctx)
		if err == nil && time.Since(announced) > e.Scale.Of(Announce) {
			if err = e.Auth.UpsertServer(ctx, describe()); err != nil {
				err = fmt.Errorf("announce %s: %w", component, err)
			} else {
				announced = time.Now()
			}
		}
		if err != nil {
			announced = time.Time{}
		}
		if ctx.Err() != nil {
			return
		}
		e.Heartbeat(component, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
