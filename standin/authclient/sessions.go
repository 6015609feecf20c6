package authclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/rpc"
)

// uploadChunk is how much of a recording goes into one message.
const uploadChunk = 64 * 1024

// UploadRecording implements Client.
func (r *Remote) UploadRecording(ctx context.Context, sid string, recording io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := rpc.Upload(ctx, r.conn)
	if err != nil {
		return fmt.Errorf("upload recording %s: %w", sid, err)
	}
	send := func(b []byte) error { return stream.SendMsg(&rpc.Chunk{Data: b}) }
	err = send([]byte(sid))
	buf := make([]byte, uploadChunk)
	for err == nil {
		n, readErr := recording.Read(buf)
		if n > 0 {
			err = send(append([]byte(nil), buf[:n]...))
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return fmt.Errorf("upload recording %s: %w", sid, readErr)
		}
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil || errors.Is(err, io.EOF) { // EOF: the answer says why
		err = stream.RecvMsg(&rpc.Empty{})
	}
	if err != nil {
		return fmt.Errorf("upload recording %s: %w", sid, err)
	}
	return nil
}

// CreateTracker implements Client.
func (r *Remote) CreateTracker(ctx context.Context, tracker types.SessionTracker) error {
	v1, ok := tracker.(*types.SessionTrackerV1)
	if !ok {
		return fmt.Errorf("create session tracker: unknown type %T", tracker)
	}
	_, err := r.api.CreateSessionTracker(ctx, &proto.CreateSessionTrackerRequest{SessionTracker: v1})
	return err
}

// Tracker implements Client.
func (r *Remote) Tracker(ctx context.Context, sid string) (types.SessionTracker, error) {
	return r.api.GetSessionTracker(ctx, &proto.GetSessionTrackerRequest{SessionID: sid})
}

// RefreshTracker implements Client.
func (r *Remote) RefreshTracker(ctx context.Context, sid string, expires time.Time) error {
	_, err := r.api.UpdateSessionTracker(ctx, &proto.UpdateSessionTrackerRequest{
		SessionID: sid,
		Update:    &proto.UpdateSessionTrackerRequest_UpdateExpiry{UpdateExpiry: &proto.SessionTrackerUpdateExpiry{Expires: &expires}},
	})
	return err
}

// SetTrackerState implements Client.
func (r *Remote) SetTrackerState(ctx context.Context, sid string, state types.SessionState) error {
	_, err := r.api.UpdateSessionTracker(ctx, &proto.UpdateSessionTrackerRequest{
		SessionID: sid,
		Update:    &proto.UpdateSessionTrackerRequest_UpdateState{UpdateState: &proto.SessionTrackerUpdateState{State: state}},
	})
	return err
}

// RemoveTracker implements Client.
func (r *Remote) RemoveTracker(ctx context.Context, sid string) error {
	_, err := r.api.RemoveSessionTracker(ctx, &proto.RemoveSessionTrackerRequest{SessionID: sid})
	return err
}

// CreateStream implements Client.
func (r *Remote) CreateStream(ctx context.Context, sid string) (Stream, error) {
	return r.stream(ctx, &proto.AuditStreamRequest{
		Request: &proto.AuditStreamRequest_CreateStream{CreateStream: &proto.CreateStream{SessionID: sid}},
	})
}

// ResumeStream implements Client.
func (r *Remote) ResumeStream(ctx context.Context, sid, uploadID string) (Stream, error) {
	return r.stream(ctx, &proto.AuditStreamRequest{
		Request: &proto.AuditStreamRequest_ResumeStream{ResumeStream: &proto.ResumeStream{SessionID: sid, UploadID: uploadID}},
	})
}

// auditStream is a Stream over gRPC.
type auditStream struct {
	stream   proto.AuthService_CreateAuditStreamClient
	uploadID string
	acked    atomic.Int64
	sendMu   sync.Mutex
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
}

// stream opens an audit stream and waits for the upload's ID.
func (r *Remote) stream(ctx context.Context, first *proto.AuditStreamRequest) (Stream, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // ctx bounds the opening alone
	defer stop()
	stream, err := r.api.CreateAuditStream(life)
	if err == nil {
		err = stream.Send(first)
	}
	var status *events.StreamStatus
	if err == nil || errors.Is(err, io.EOF) {
		status, err = stream.Recv()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open audit stream: %w", err)
	}
	s := &auditStream{stream: stream, uploadID: status.UploadID, cancel: cancel, done: make(chan struct{})}
	s.acked.Store(-1)
	go s.receive()
	return s, nil
}

func (s *auditStream) receive() {
	defer close(s.done)
	defer s.cancel()
	for {
		status, err := s.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			return
		}
		s.acked.Store(status.LastEventIndex)
	}
}

func (s *auditStream) send(r *proto.AuditStreamRequest) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.stream.Send(r)
}

// UploadID implements Stream.
func (s *auditStream) UploadID() string { return s.uploadID }

// Acked implements Stream.
func (s *auditStream) Acked() int64 { return s.acked.Load() }

// Send implements Stream.
func (s *auditStream) Send(_ context.Context, event events.AuditEvent) error {
	oneof, err := events.ToOneOf(event)
	if err != nil {
		return err
	}
	return s.send(&proto.AuditStreamRequest{Request: &proto.AuditStreamRequest_Event{Event: oneof}})
}

// Complete implements Stream.
func (s *auditStream) Complete(ctx context.Context) error {
	err := s.send(&proto.AuditStreamRequest{Request: &proto.AuditStreamRequest_CompleteStream{CompleteStream: &proto.CompleteStream{}}})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.wait(ctx)
}

// Close implements Stream.
func (s *auditStream) Close() error {
	defer s.cancel()
	err := s.send(&proto.AuditStreamRequest{Request: &proto.AuditStreamRequest_FlushAndCloseStream{FlushAndCloseStream: &proto.FlushAndCloseStream{}}})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return s.wait(ctx)
}

func (s *auditStream) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		s.cancel()
		return ctx.Err()
	}
}

// Done implements Stream.
func (s *auditStream) Done() <-chan struct{} { return s.done }

// Err implements Stream.
func (s *auditStream) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}
