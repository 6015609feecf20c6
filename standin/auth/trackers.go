package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/state"
)

func trackerKey(sid string) string { return "trackers/" + sid }

// trackerLocks make read-change-write of one tracker atomic within this auth.
type trackerLocks struct {
	mu sync.Mutex
}

func (a *Auth) tracker(ctx context.Context, sid string) (*types.SessionTrackerV1, error) {
	item, err := a.store.Get(ctx, trackerKey(sid))
	if err != nil {
		return nil, describe(err, "session %q is not found", sid)
	}
	t := new(types.SessionTrackerV1)
	return t, t.Unmarshal(item.Value)
}

func (a *Auth) trackers(ctx context.Context) ([]*types.SessionTrackerV1, error) {
	items, err := a.store.List(ctx, "trackers/")
	if err != nil {
		return nil, err
	}
	out := make([]*types.SessionTrackerV1, 0, len(items))
	for _, item := range items {
		t := new(types.SessionTrackerV1)
		if err := t.Unmarshal(item.Value); err != nil {
			return nil, fmt.Errorf("decode %s: %w", item.Key, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// putTracker stores a tracker until its own expiry.
func (a *Auth) putTracker(ctx context.Context, t *types.SessionTrackerV1) error {
	if t.Spec.SessionID == "" {
		return fmt.Errorf("session tracker has no session ID%w", silent{errBadRequest})
	}
	if t.Spec.Expires.IsZero() {
		expire(t, time.Now().UTC().Add(a.Scale.Of(process.TrackerTTL)))
	}
	value, err := t.Marshal()
	if err != nil {
		return err
	}
	return a.store.Put(ctx, state.Item{Key: trackerKey(t.Spec.SessionID), Value: value, Expires: t.Spec.Expires})
}

// updateTracker applies one change. A terminated session's tracker lives for
// three minutes more.
func (a *Auth) updateTracker(ctx context.Context, r *proto.UpdateSessionTrackerRequest) error {
	a.trackerLock.mu.Lock()
	defer a.trackerLock.mu.Unlock()
	t, err := a.tracker(ctx, r.SessionID)
	if err != nil {
		return err
	}
	switch u := r.Update.(type) {
	case *proto.UpdateSessionTrackerRequest_UpdateState:
		t.Spec.State = u.UpdateState.GetState()
		if t.Spec.State == types.SessionState_SessionStateTerminated {
			expire(t, time.Now().UTC().Add(a.Scale.Of(process.TrackerEndedTTL)))
		}
	case *proto.UpdateSessionTrackerRequest_AddParticipant:
		if u.AddParticipant.GetParticipant() == nil {
			return fmt.Errorf("no participant given%w", silent{errBadRequest})
		}
		t.AddParticipant(*u.AddParticipant.Participant)
	case *proto.UpdateSessionTrackerRequest_RemoveParticipant:
		if err := t.RemoveParticipant(u.RemoveParticipant.GetParticipantID()); err != nil {
			return err
		}
	case *proto.UpdateSessionTrackerRequest_UpdateExpiry:
		if u.UpdateExpiry.GetExpires() != nil {
			expire(t, u.UpdateExpiry.Expires.UTC())
		}
	default:
		return fmt.Errorf("unrecognized session tracker update %T%w", r.Update, silent{errBadRequest})
	}
	return a.putTracker(ctx, t)
}

// expire sets both places where a tracker says when it ends.
func expire(t *types.SessionTrackerV1, at time.Time) {
	t.Spec.Expires = at
	t.SetExpiry(at)
}
