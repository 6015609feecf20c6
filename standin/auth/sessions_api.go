package auth

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/protostream"
)

// CreateSessionTracker stores a member's new tracker.
func (s *api) CreateSessionTracker(ctx context.Context, r *proto.CreateSessionTrackerRequest) (*types.SessionTrackerV1, error) {
	if _, err := s.hostOnly(ctx); err != nil {
		return nil, err
	}
	if r.SessionTracker == nil {
		return nil, status.Error(codes.InvalidArgument, "no session tracker given")
	}
	return r.SessionTracker, grpcError(s.putTracker(ctx, r.SessionTracker))
}

// GetSessionTracker returns a tracker, or NotFound when its time is over.
func (s *api) GetSessionTracker(ctx context.Context, r *proto.GetSessionTrackerRequest) (*types.SessionTrackerV1, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	t, err := s.tracker(ctx, r.SessionID)
	if err == nil && !c.mayKnow(t) {
		return nil, status.Errorf(codes.NotFound, "session %q is not found", r.SessionID)
	}
	return t, grpcError(err)
}

// mayKnow says whether a tracker is shown to the caller: to members, to those
// whose roles let them list sessions, and to its own participants.
func (c *caller) mayKnow(t *types.SessionTrackerV1) bool {
	if c.access == nil || c.access.Allowed(types.KindSessionTracker, types.VerbList) == nil || c.access.Allowed(types.KindSession, types.VerbList) == nil {
		return true
	}
	return slices.ContainsFunc(t.Spec.Participants, func(p types.Participant) bool { return p.User == c.name })
}

// GetActiveSessionTrackers streams all trackers whose time is not over.
func (s *api) GetActiveSessionTrackers(_ *emptypb.Empty, stream proto.AuthService_GetActiveSessionTrackersServer) error {
	return s.sendTrackers(stream.Context(), func(*types.SessionTrackerV1) bool { return true }, stream.Send)
}

func (s *api) sendTrackers(ctx context.Context, want func(*types.SessionTrackerV1) bool, send func(*types.SessionTrackerV1) error) error {
	c, err := s.caller(ctx)
	if err != nil {
		return err
	}
	trackers, err := s.trackers(ctx)
	if err != nil {
		return grpcError(err)
	}
	for _, t := range trackers {
		if !c.mayKnow(t) || !want(t) {
			continue
		}
		if err := send(t); err != nil {
			return err
		}
	}
	return nil
}

// UpdateSessionTracker changes a tracker.
func (s *api) UpdateSessionTracker(ctx context.Context, r *proto.UpdateSessionTrackerRequest) (*emptypb.Empty, error) {
	if _, err := s.hostOnly(ctx); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, grpcError(s.updateTracker(ctx, r))
}

// RemoveSessionTracker forgets a tracker.
func (s *api) RemoveSessionTracker(ctx context.Context, r *proto.RemoveSessionTrackerRequest) (*emptypb.Empty, error) {
	if _, err := s.hostOnly(ctx); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, grpcError(describe(s.store.Delete(ctx, trackerKey(r.SessionID)), "session %q is not found", r.SessionID))
}

// StreamSessionEvents plays a finished recording back. When a user asks, that is
// an event of its own, as in the real program.
func (s *api) StreamSessionEvents(r *proto.StreamSessionEventsRequest, stream proto.AuthService_StreamSessionEventsServer) error {
	ctx := stream.Context()
	c, err := s.allowed(ctx, types.KindSession, types.VerbRead)
	if err != nil {
		return err
	}
	if c.role == "" || c.role == types.RoleAdmin {
		if err := s.Emit(ctx, &events.SessionRecordingAccess{
			Metadata:     events.Metadata{Type: audit.SessionRecordingAccess, Code: audit.SessionRecordingAccessCode},
			UserMetadata: events.UserMetadata{User: c.name},
			SessionID:    r.SessionID,
		}); err != nil {
			return grpcError(err)
		}
	}
	file, err := s.recordings.Open(ctx, r.SessionID)
	if err != nil {
		return grpcError(err)
	}
	defer file.Close()
	return grpcError(play(protostream.NewDecoder(file), int64(r.StartIndex), stream.Send))
}

func play(dec *protostream.Decoder, from int64, send func(*events.OneOf) error) error {
	for {
		event, err := dec.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if event.GetIndex() < from {
			continue
		}
		oneof, err := events.ToOneOf(event)
		if err != nil {
			return err
		}
		if err := send(oneof); err != nil {
			return err
		}
	}
}
