package auth

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/protostream"
	"shakedown.dev/shakedown/standin/recordings"
	"shakedown.dev/shakedown/standin/rpc"
)

// lateUpload is how late a recording is when the fault's rule does not say.
const lateUpload = 30 * time.Second

// finish makes a recording visible and says so in the audit log; under the fault
// late-upload only after a while.
func (a *Auth) finish(ctx context.Context, sid string, store func(context.Context) error) error {
	rule, late := a.Faults.Active(faults.LateUpload, sid)
	if !late {
		return a.finishNow(ctx, sid, store)
	}
	delay := rule.Duration(lateUpload)
	a.background.Go(func() {
		select {
		case <-time.After(delay):
		case <-a.life.Done():
			return
		}
		if err := a.finishNow(a.life, sid, store); err != nil {
			a.Log.Error("late upload", "session", sid, "error", err)
			return
		}
		a.Faults.Record(faults.LateUpload, sid, "visible "+delay.String()+" late")
	})
	return nil
}

func (a *Auth) finishNow(ctx context.Context, sid string, store func(context.Context) error) error {
	if err := store(ctx); err != nil {
		return err
	}
	return a.Emit(ctx, &events.SessionUpload{
		Metadata:        events.Metadata{Type: audit.SessionUpload, Code: audit.SessionUploadCode, Index: audit.UploadIndex},
		SessionMetadata: events.SessionMetadata{SessionID: sid},
		SessionURL:      "file:///var/lib/teleport/log/records/" + sid + ".tar",
	})
}

// Upload takes a finished recording from a member: first the session's ID, then
// the bytes. It is visible when all have come.
func (a *Auth) Upload(stream rpc.UploadStream) error {
	ctx := stream.Context()
	if _, err := a.hostOnly(ctx); err != nil {
		return err
	}
	var first rpc.Chunk
	if err := stream.RecvMsg(&first); err != nil {
		return err
	}
	sid := string(first.Data)
	store, err := a.receive(ctx, stream, sid)
	if err != nil {
		return grpcError(err)
	}
	if err := a.finish(context.WithoutCancel(ctx), sid, store); err != nil {
		return grpcError(err)
	}
	return stream.SendMsg(&rpc.Empty{})
}

// receive stores what comes in and returns what is left to do when it is due:
// nothing, unless it is to be late; then the bytes wait in an upload of their own.
func (a *Auth) receive(ctx context.Context, stream rpc.UploadStream, sid string) (func(context.Context) error, error) {
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() { pw.CloseWithError(copyChunks(pw, stream)) }()
	if _, late := a.Faults.Active(faults.LateUpload, sid); !late {
		return func(context.Context) error { return nil }, a.recordings.Store(ctx, sid, pr)
	}
	upload, err := a.recordings.Create(ctx, sid)
	if err != nil {
		return nil, err
	}
	if err := a.recordings.PutStream(ctx, upload, 1, pr); err != nil {
		return nil, errors.Join(err, a.recordings.Abort(context.WithoutCancel(ctx), upload))
	}
	return func(ctx context.Context) error { return a.recordings.Complete(ctx, upload) }, nil
}

// copyChunks returns io.EOF at the end, which is what a pipe's reader waits for.
func copyChunks(w io.Writer, stream rpc.UploadStream) error {
	var chunk rpc.Chunk
	for {
		if err := stream.RecvMsg(&chunk); err != nil {
			return err
		}
		if _, err := w.Write(chunk.Data); err != nil {
			return err
		}
	}
}

// auditStream is one synchronous recording being received.
type auditStream struct {
	*Auth
	stream  proto.AuthService_CreateAuditStreamServer
	upload  recordings.Upload
	encoder protostream.Encoder
	part    int
	idle    *time.Timer
	open    bool
}

// CreateAuditStream receives a recording event by event. It tells the sender the
// upload's ID and the last event of each part that is stored.
func (s *api) CreateAuditStream(stream proto.AuthService_CreateAuditStreamServer) error {
	if _, err := s.hostOnly(stream.Context()); err != nil {
		return err
	}
	// The real one pads parts to five megabytes, because S3 wants it so; a shared
	// store would have to carry that.
	a := &auditStream{Auth: s.Auth, stream: stream}
	return a.run()
}

func (a *auditStream) run() (err error) {
	ended := make(chan struct{})
	defer close(ended)
	requests := a.requests(ended)
	a.idle = time.NewTimer(a.Scale.Of(process.PartFlushIdle))
	defer a.idle.Stop()
	// However the stream ends, what it brought is kept for whoever completes it.
	defer func() {
		if flushed := a.flush(false); err == nil {
			err = flushed
		} else if flushed != nil {
			a.Log.Error("part of a recording is lost", "session", a.upload.SessionID, "error", flushed)
		}
		err = grpcError(err)
	}()
	for {
		select {
		case <-a.life.Done():
			return status.Error(codes.Unavailable, "auth is shutting down")
		case <-a.idle.C:
			if err := a.flush(false); err != nil {
				return err
			}
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			if done, err := a.handle(r); done || err != nil {
				return err
			}
		}
	}
}

// requests gives what comes in until ended, and closes the channel when the
// stream breaks. A stream that breaks takes nothing back: what came before is
// given all the same.
func (a *auditStream) requests(ended <-chan struct{}) <-chan *proto.AuditStreamRequest {
	requests := make(chan *proto.AuditStreamRequest)
	go func() {
		defer close(requests)
		for {
			r, err := a.stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- r:
			case <-ended:
				return
			}
		}
	}()
	return requests
}

func (a *auditStream) handle(r *proto.AuditStreamRequest) (done bool, err error) {
	ctx := context.WithoutCancel(a.stream.Context())
	switch {
	case a.open && (r.GetCreateStream() != nil || r.GetResumeStream() != nil):
		return true, status.Error(codes.InvalidArgument, "stream is already created or resumed")
	case r.GetCreateStream() != nil:
		upload, err := a.recordings.Create(ctx, r.GetCreateStream().SessionID)
		if err != nil {
			return true, status.Error(codes.InvalidArgument, err.Error())
		}
		return false, a.begin(upload, 1)
	case r.GetResumeStream() != nil:
		upload, err := a.recordings.Find(ctx, r.GetResumeStream().UploadID)
		if err != nil {
			return true, err
		}
		next := 1
		if n := len(upload.Parts); n > 0 {
			next = upload.Parts[n-1] + 2 // one is left free, as in the real program
		}
		return false, a.begin(upload, next)
	case !a.open:
		return true, status.Error(codes.InvalidArgument, "stream is not initialized yet")
	case r.GetCompleteStream() != nil:
		if err := a.flush(true); err != nil {
			return true, err
		}
		return true, a.finish(ctx, a.upload.SessionID, func(ctx context.Context) error { return a.recordings.Complete(ctx, a.upload) })
	case r.GetFlushAndCloseStream() != nil:
		return true, a.flush(false)
	case r.GetEvent() != nil:
		return false, a.take(ctx, r.GetEvent())
	}
	return true, status.Error(codes.InvalidArgument, "unsupported stream request")
}

func (a *auditStream) begin(upload recordings.Upload, part int) error {
	a.upload, a.part, a.open = upload, part, true
	return a.stream.Send(&events.StreamStatus{UploadID: upload.ID, LastEventIndex: -1, LastUploadTime: time.Now().UTC()})
}

// take adds an event to the part in hand; those that are not terminal traffic go
// to the audit log as well.
func (a *auditStream) take(ctx context.Context, oneof *events.OneOf) error {
	event, err := events.FromOneOf(*oneof)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	a.idle.Reset(a.Scale.Of(process.PartFlushIdle))
	if err := a.encoder.Append(event); err != nil {
		return err
	}
	switch event.(type) {
	case *events.SessionPrint, *events.Resize, *events.DesktopRecording:
	default:
		if err := a.Emit(ctx, event); err != nil {
			return err
		}
	}
	if a.encoder.CompressedSize() < protostream.SyncPart {
		return nil
	}
	return a.flush(false)
}

// flush stores the part in hand, also for a sender that is gone.
func (a *auditStream) flush(last bool) error {
	if !a.open || a.encoder.Pending() == 0 {
		return nil
	}
	index := a.encoder.LastIndex()
	if err := a.recordings.PutPart(context.WithoutCancel(a.stream.Context()), a.upload, a.part, a.encoder.Cut(last)); err != nil {
		return err
	}
	a.part++
	// The sender may be gone; then nobody needs to know.
	_ = a.stream.Send(&events.StreamStatus{UploadID: a.upload.ID, LastEventIndex: index, LastUploadTime: time.Now().UTC()})
	return nil
}
