package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/authclient"
)

func TestUploadedRecordingIsPlayedBack(t *testing.T) {
	r := newRig(t, nil)
	node, sid := r.node(), newSID()
	if _, err := r.play(node, sid); status.Code(err) != codes.NotFound {
		t.Fatalf("before the upload: got %v, want NotFound", err)
	}
	if err := node.UploadRecording(t.Context(), sid, recording(t, sid, 3)); err != nil {
		t.Fatal(err)
	}
	got, err := r.play(node, sid)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"session.start", "print", "print", "print", "session.end"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	uploads := r.events(audit.SessionUpload)
	if len(uploads) != 1 || uploads[0].GetCode() != "T2005I" || uploads[0].GetIndex() != audit.UploadIndex || sessionID(uploads[0]) != sid {
		t.Errorf("upload events: %v", uploads)
	}
	if n := len(r.events(audit.SessionRecordingAccess)); n != 0 {
		t.Errorf("a member's playback left %d access events", n)
	}
}

func TestAnUploadThatBreaksOffLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	node, sid := r.node(), newSID()
	if err := node.UploadRecording(t.Context(), sid, brokenReader{}); err == nil {
		t.Fatal("a reader that fails did not fail the upload")
	}
	r.eventually("the parts are removed", func() bool {
		uploads, err := r.auth.recordings.Uploads(t.Context())
		return err == nil && len(uploads) == 0
	})
	if _, err := r.play(node, sid); status.Code(err) != codes.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read(b []byte) (int, error) { return copy(b, "some"), errors.New("disk on fire") }

func TestSyncStreamGoesOnWhereItBroke(t *testing.T) {
	r := newRig(t, nil) // with Teleport's own intervals: no completer comes between the break and the resumption
	node, sid := r.node(), newSID()
	stream, err := node.CreateStream(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, startEvent(sid), printEvent(1), printEvent(2))
	if err := stream.Close(); err != nil { // flushes
		t.Fatal(err)
	}
	if got := stream.Acked(); got != 2 {
		t.Fatalf("event %d is the last that was acknowledged, want 2", got)
	}
	resumed, err := node.ResumeStream(t.Context(), sid, stream.UploadID())
	if err != nil {
		t.Fatal(err)
	}
	send(t, resumed, printEvent(3), endEvent(sid))
	if err := resumed.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.play(node, sid)
	if err != nil {
		t.Fatal(err)
	}
	if want := "session.start print print print session.end"; strings.Join(got, " ") != want {
		t.Errorf("played %v, want %s", got, want)
	}
	var kinds []string
	for _, e := range r.events() {
		if sessionID(e) == sid {
			kinds = append(kinds, e.GetType())
		}
	}
	if diff := cmp.Diff([]string{"session.start", "session.end", "session.upload"}, kinds); diff != "" {
		t.Errorf("audit log of the session: %s", diff)
	}
}

func send(t *testing.T, s authclient.Stream, all ...events.AuditEvent) {
	t.Helper()
	for _, e := range all {
		if err := s.Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestResumeOfAnUnknownUploadFails(t *testing.T) {
	r := newRig(t, nil)
	if _, err := r.node().ResumeStream(t.Context(), newSID(), "nonsense"); status.Code(errors.Unwrap(err)) != codes.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestCompleterFinishesWhatASenderLeft(t *testing.T) {
	r := newRig(t, nil, scaled(1200)) // polls every 250 ms, adds the end 100 ms later
	node, sid := r.node(), newSID()
	track(t, node, sid, time.Now().Add(time.Hour))
	stream, err := node.CreateStream(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, startEvent(sid), printEvent(1))
	if err := stream.Close(); err != nil { // the node is gone; the tracker lives on
		t.Fatal(err)
	}
	if err := r.auth.completeUploads(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.events(audit.SessionUpload)) != 0 {
		t.Fatal("completed while the tracker was there")
	}
	if err := node.SetTrackerState(t.Context(), sid, types.SessionState_SessionStateTerminated); err != nil { // it goes 150 ms later
		t.Fatal(err)
	}
	r.eventually("the upload is completed", func() bool { return len(r.events(audit.SessionUpload)) == 1 })
	r.eventually("the missing end is added", func() bool { return len(r.events(audit.SessionEnd)) == 1 })
	end := r.events(audit.SessionEnd)[0].(*events.SessionEnd)
	if end.SessionID != sid || end.User != "load" || !end.Interactive || end.EndTime.IsZero() {
		t.Errorf("the added end is %+v", end)
	}
	if got, err := r.play(node, sid); err != nil || len(got) != 2 {
		t.Errorf("played %v and %v, want start and one print", got, err)
	}
}

func TestCompleterWaitsADayFromSeventeenOn(t *testing.T) {
	r := newRig(t, nil, behaving("17"))
	node, sid := r.node(), newSID()
	stream, err := node.CreateStream(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, startEvent(sid))
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.auth.completeUploads(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.events(audit.SessionUpload)) != 0 {
		t.Error("completed at once, want after a day")
	}
}

func track(t *testing.T, node *authclient.Remote, sid string, expires time.Time) {
	t.Helper()
	tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{SessionID: sid, Kind: "ssh", Expires: expires.UTC()})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.CreateTracker(t.Context(), tracker); err != nil {
		t.Fatal(err)
	}
}

func TestATerminatedTrackerLivesThreeMinutesMore(t *testing.T) {
	r := newRig(t, nil)
	node, sid := r.node(), newSID()
	track(t, node, sid, time.Now().Add(30*time.Minute))
	if err := node.SetTrackerState(t.Context(), sid, types.SessionState_SessionStateTerminated); err != nil {
		t.Fatal(err)
	}
	tracker, err := node.Tracker(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(tracker.Expiry()); left > 3*time.Minute || left < 2*time.Minute {
		t.Errorf("it expires in %s, want in three minutes", left)
	}
}
