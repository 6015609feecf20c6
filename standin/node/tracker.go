package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/process"
)

// trackerTimeout bounds calls for the end of a session.
const trackerTimeout = 10 * time.Second

// Trackers keeps the session trackers of one service: created when a session begins, refreshed while it lasts, left for a short while after its end.
type Trackers struct {
	auth  authclient.Client
	scale process.Scale
	log   *slog.Logger

	mu   sync.Mutex
	live map[string]struct{}
}

// NewTrackers gives none.
func NewTrackers(auth authclient.Client, scale process.Scale, log *slog.Logger) *Trackers {
	return &Trackers{auth: auth, scale: scale, log: log, live: map[string]struct{}{}}
}

// Tracked is what a tracker says of its session.
type Tracked struct {
	ID, User, Login   string
	Kind              types.SessionKind
	Hostname, Address string
	Started           time.Time
}

// Track creates a session's tracker. The real program refuses a session that it cannot track.
func (t *Trackers) Track(ctx context.Context, s Tracked) error {
	tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{
		SessionID: s.ID, Kind: string(s.Kind), State: types.SessionState_SessionStateRunning, Created: s.Started,
		Expires: s.Started.Add(t.scale.Of(process.TrackerTTL)), Hostname: s.Hostname, Address: s.Address,
		ClusterName: t.auth.Identity().Cluster, Login: s.Login, HostUser: s.User,
		Participants: []types.Participant{{ID: s.ID, User: s.User, Mode: string(types.SessionPeerMode), LastActive: s.Started}},
	})
	if err != nil {
		return err
	}
	if err := t.auth.CreateTracker(ctx, tracker); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[s.ID] = struct{}{}
	return nil
}

// Remove deletes the tracker of a session that never was.
func (t *Trackers) Remove(id string) {
	t.forget(id)
	ctx, cancel := context.WithTimeout(context.Background(), trackerTimeout)
	defer cancel()
	if err := t.auth.RemoveTracker(ctx, id); err != nil {
		t.log.Debug("remove tracker", "session", id, "err", err)
	}
}

// Ended marks the tracker as terminated and lets it live on for a short while.
func (t *Trackers) Ended(id string) {
	t.forget(id)
	ctx, cancel := context.WithTimeout(context.Background(), trackerTimeout)
	defer cancel()
	err := t.auth.SetTrackerState(ctx, id, types.SessionState_SessionStateTerminated)
	if err == nil {
		err = t.auth.RefreshTracker(ctx, id, time.Now().Add(t.scale.Of(process.TrackerEndedTTL)))
	}
	if err != nil {
		t.log.Debug("close tracker", "session", id, "err", err)
	}
}

func (t *Trackers) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, id)
}

// Live is the number of sessions that have not written down their end.
func (t *Trackers) Live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live)
}

// Run moves the expiry of all live sessions' trackers until ctx ends.
func (t *Trackers) Run(ctx context.Context) {
	ticker := time.NewTicker(t.scale.Of(process.TrackerRefresh))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, id := range t.ids() {
			if err := t.auth.RefreshTracker(ctx, id, time.Now().Add(t.scale.Of(process.TrackerTTL))); err != nil {
				t.log.Warn("refresh tracker", "session", id, "err", err)
			}
		}
	}
}

func (t *Trackers) ids() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]string, 0, len(t.live))
	for id := range t.live {
		ids = append(ids, id)
	}
	return ids
}
