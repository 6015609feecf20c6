package auth

import (
	"context"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"shakedown.dev/shakedown/standin/audit"
)

// maxEvents is the largest limit of one search (EventsMaxIterationLimit).
const maxEvents = 10000

// GetEvents searches the audit log.
func (s *api) GetEvents(ctx context.Context, r *proto.GetEventsRequest) (*proto.Events, error) {
	if _, err := s.allowed(ctx, types.KindEvent, types.VerbList); err != nil {
		return nil, err
	}
	q := audit.Query{From: r.StartDate, To: r.EndDate, Types: r.EventTypes, Limit: int(r.Limit), StartKey: r.StartKey, Descending: descending(r.Order)}
	return s.search(ctx, q)
}

// GetSessionEvents lists ended sessions.
func (s *api) GetSessionEvents(ctx context.Context, r *proto.GetSessionEventsRequest) (*proto.Events, error) {
	if _, err := s.allowed(ctx, types.KindSession, types.VerbList, types.VerbRead); err != nil {
		return nil, err
	}
	q := audit.Query{From: r.StartDate, To: r.EndDate, Types: []string{audit.SessionEnd, "windows.desktop.session.end"}, Limit: int(r.Limit), StartKey: r.StartKey, Descending: descending(r.Order)}
	return s.search(ctx, q)
}

func (s *api) search(ctx context.Context, q audit.Query) (*proto.Events, error) {
	if q.Limit <= 0 {
		q.Limit = maxEvents
	}
	if q.Limit > maxEvents {
		return nil, status.Errorf(codes.InvalidArgument, "limit %d exceeds max iteration limit %d", q.Limit, maxEvents)
	}
	found, key, err := s.log.Search(ctx, q)
	if err != nil {
		return nil, grpcError(err)
	}
	out := &proto.Events{LastKey: key}
	for _, event := range found {
		oneof, err := events.ToOneOf(event)
		if err != nil {
			return nil, grpcError(err)
		}
		out.Items = append(out.Items, oneof)
	}
	return out, nil
}

// EmitAuditEvent stores an event of a member.
func (s *api) EmitAuditEvent(ctx context.Context, oneof *events.OneOf) (*emptypb.Empty, error) {
	if _, err := s.hostOnly(ctx); err != nil {
		return nil, err
	}
	event, err := events.FromOneOf(*oneof)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &emptypb.Empty{}, grpcError(s.Emit(ctx, event))
}

// descending reads the order as the real server does: it takes the number for a
// types.EventOrder, in which 0 is ascending, although the protocol's own enum
// calls 0 descending. Clients write the number the same way.
func descending(o proto.Order) bool { return types.EventOrder(o) == types.EventOrderDescending }
