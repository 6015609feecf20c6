package auth

import (
	"context"
	"strings"
	"testing"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/protostream"
)

// breakingStream hands out its requests and is broken when the last comes out:
// that one is still on its way to be handled.
type breakingStream struct {
	proto.AuthService_CreateAuditStreamServer
	ctx    context.Context
	cancel context.CancelFunc
	left   []*proto.AuditStreamRequest
}

func (s *breakingStream) Context() context.Context        { return s.ctx }
func (s *breakingStream) Send(*events.StreamStatus) error { return nil }

func (s *breakingStream) Recv() (*proto.AuditStreamRequest, error) {
	if len(s.left) == 0 {
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
	next := s.left[0]
	s.left = s.left[1:]
	if len(s.left) == 0 {
		s.cancel()
	}
	return next, nil
}

// slowLog is busy with every event until the stream is broken.
type slowLog struct {
	audit.Log
	broken <-chan struct{}
}

func (l slowLog) Append(ctx context.Context, event events.AuditEvent) error {
	<-l.broken
	return l.Log.Append(ctx, event)
}

func sent(t *testing.T, event events.AuditEvent) *proto.AuditStreamRequest {
	t.Helper()
	oneof, err := events.ToOneOf(event)
	if err != nil {
		t.Fatal(err)
	}
	return &proto.AuditStreamRequest{Request: &proto.AuditStreamRequest_Event{Event: oneof}}
}

func TestABrokenStreamLeavesAllThatCame(t *testing.T) {
	r := newRig(t, nil, scaled(3000))        // parts are flushed after 100 ms of silence
	if err := r.server.Close(); err != nil { // its own completer would get in the way
		t.Fatal(err)
	}
	a, err := Open(t.Context(), r.auth.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	log := a.log
	for range 20 { // which of two things that are ready comes first is by chance
		sid := newSID()
		upload, err := a.recordings.Create(t.Context(), sid)
		if err != nil {
			t.Fatal(err)
		}
		resume := &proto.AuditStreamRequest{Request: &proto.AuditStreamRequest_ResumeStream{
			ResumeStream: &proto.ResumeStream{SessionID: sid, UploadID: upload.ID},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		stream := &breakingStream{ctx: ctx, cancel: cancel, left: []*proto.AuditStreamRequest{
			resume, sent(t, startEvent(sid)), sent(t, printEvent(1)),
		}}
		a.log = slowLog{log, ctx.Done()}
		if err := (&auditStream{Auth: a, stream: stream}).run(); err != nil {
			t.Fatalf("the broken stream was not flushed: %v", err)
		}
		a.log = log
		if err := a.completeUploads(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, err := a.recordings.Open(t.Context(), sid)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = play(protostream.NewDecoder(file), 0, func(oneof *events.OneOf) error {
			event, err := events.FromOneOf(*oneof)
			got = append(got, event.GetType())
			return err
		})
		_ = file.Close()
		if err != nil || strings.Join(got, " ") != "session.start print" {
			t.Fatalf("played %v and %v, want all that came", got, err)
		}
	}
}
