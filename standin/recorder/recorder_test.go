package recorder

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/protostream"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
)

type rig struct {
	t    *testing.T
	auth *sshtest.Auth
	host *Host
	dir  string
}

// newRig gives a host that records below a temporary folder and uploads nothing by itself.
func newRig(t *testing.T, scale process.Scale) *rig {
	r := &rig{t: t, auth: sshtest.NewAuth(t), dir: t.TempDir()}
	client := r.auth.Client("bbbbbbbb-0000-4000-8000-000000000001", "web-1", types.RoleNode)
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	emitter := NewEmitter(client, reg, log)
	t.Cleanup(emitter.Close)
	r.host = NewHost(Config{DataDir: r.dir, Auth: client, Behaviour: process.Behaviours()[0], Scale: scale, Emitter: emitter, Metrics: reg, Log: log})
	if err := r.host.makeDirs(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open(mode string, opts ...func(*Options)) (*Recorder, string) {
	r.t.Helper()
	o := Options{SessionID: uuid.NewString(), Mode: mode, ServerID: "node"}
	for _, f := range opts {
		f(&o)
	}
	rec, err := r.host.Open(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	start := &events.SessionStart{Metadata: events.Metadata{Type: TypeStart, Code: CodeStart}, SessionMetadata: events.SessionMetadata{SessionID: o.SessionID}, UserMetadata: events.UserMetadata{User: "alice"}, TerminalSize: "80:25"}
	if err := rec.Emit(start); err != nil {
		r.t.Fatal(err)
	}
	return rec, o.SessionID
}

// files lists the session's files below streaming/default.
func (r *rig) files(session string) []string {
	var out []string
	filepath.Walk(r.host.scanDir(), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && strings.Contains(path, session) {
			out = append(out, filepath.Base(path))
		}
		return nil
	})
	return out
}

func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never happened: %s", what)
		}
	}
}

func decode(t *testing.T, r io.Reader) []events.AuditEvent {
	t.Helper()
	var out []events.AuditEvent
	for dec := protostream.NewDecoder(r); ; {
		e, err := dec.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

func TestQuietSessionIsOnlyInMemory(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeNode)
	fmt.Fprint(rec, "a line\r\n")
	if got := r.files(sid); len(got) != 1 || got[0] != "1.reservation" {
		t.Errorf("on disk: %v, want only the reservation of the first part", got)
	}
}

func TestQuietSessionIsFlushed(t *testing.T) {
	r := newRig(t, process.Scale(process.PartFlushIdle/(50*time.Millisecond)))
	rec, sid := r.open(ModeNode)
	fmt.Fprint(rec, "a line\r\n")
	r.eventually("first part", func() bool { return len(r.files(sid)) == 1 && r.files(sid)[0] == "1.part" })
	fmt.Fprint(rec, "another\r\n")
	r.eventually("second part", func() bool { return strings.Join(r.files(sid), " ") == "1.part 2.part" })
}

func TestBusySessionIsCutBySize(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeNode)
	noise := rand.New(rand.NewPCG(1, 2))
	chunk := make([]byte, 32<<10)
	for range 6 {
		for i := range chunk {
			chunk[i] = byte(noise.Uint32())
		}
		if _, err := rec.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(r.host.multiDir(), r.upload(), sid, "1.part"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < protostream.AsyncPart || info.Size() > 2*protostream.AsyncPart {
		t.Errorf("first part has %d bytes, want a little over %d", info.Size(), protostream.AsyncPart)
	}
}

// upload is the id of the only upload.
func (r *rig) upload() string {
	r.t.Helper()
	dirs, err := os.ReadDir(r.host.multiDir())
	if err != nil || len(dirs) != 1 {
		r.t.Fatalf("uploads: %v, %v", dirs, err)
	}
	return dirs[0].Name()
}

func TestFinishedRecordingIsUploadedAndRemoved(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeNode)
	for i := range 3 {
		fmt.Fprintf(rec, "line %d\r\n", i)
		time.Sleep(2 * time.Millisecond)
	}
	if err := rec.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.files(sid); len(got) != 1 || got[0] != sid+".tar" {
		t.Fatalf("on disk: %v", got)
	}
	if err := r.host.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.files(sid); len(got) != 0 {
		t.Errorf("left on disk: %v", got)
	}
	list := r.auth.Recording(sid)
	for i, e := range list {
		if e.GetIndex() != int64(i) {
			t.Errorf("event %d has index %d", i, e.GetIndex())
		}
	}
	second, third := list[2].(*events.SessionPrint), list[3].(*events.SessionPrint)
	if second.Offset != 8 || second.ChunkIndex != 1 || third.Offset != 16 || third.DelayMilliseconds < second.DelayMilliseconds+2 {
		t.Errorf("print events do not follow on each other: %+v, %+v", second, third)
	}
}

// An uploader that looks at the folder while recordings are being joined must find each whole or not at all.
func TestUploaderNeverSendsHalfARecording(t *testing.T) {
	r := newRig(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scans := make(chan struct{})
	go func() {
		defer close(scans)
		for ctx.Err() == nil {
			_ = r.host.scan(ctx)
		}
	}()
	var sessions []string
	for range 300 {
		rec, sid := r.open(ModeNode)
		fmt.Fprint(rec, "a line\r\n")
		if err := rec.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, sid)
	}
	cancel()
	<-scans
	if err := r.host.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sid := range sessions {
		if got := len(r.auth.Recording(sid)); got != 2 {
			t.Errorf("recording of %s: %d events, want its start and its line", sid, got)
		}
	}
}

func TestUploadWaitsForTheAuth(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeNode)
	rec.Complete(t.Context())
	r.auth.With(func(a *sshtest.Auth) { a.Down = true })
	if err := r.host.scan(t.Context()); err == nil {
		t.Error("a scan without the auth succeeded")
	}
	if got := r.files(sid); len(got) == 0 {
		t.Fatal("the recording is gone")
	}
	r.auth.With(func(a *sshtest.Auth) { a.Down = false })
	if err := r.host.scan(t.Context()); err != nil || r.auth.Recording(sid) == nil {
		t.Errorf("not uploaded afterwards: %v", err)
	}
}

func TestCorruptedRecordingIsPutAside(t *testing.T) {
	r := newRig(t, 1)
	sid := uuid.NewString()
	if err := os.WriteFile(r.host.tarPath(sid), []byte("no recording"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // marked by the first scan, moved by the second
		if err := r.host.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	aside, _ := filepath.Glob(filepath.Join(r.host.corruptedDir(), sid+".*"))
	if len(aside) != 2 || len(r.files(sid)) != 0 {
		t.Errorf("put aside: %v, left: %v", aside, r.files(sid))
	}
}

func TestCompleterFinishesWhatNobodyTracks(t *testing.T) {
	const scale = process.Scale(process.CompleterEndDelay / (20 * time.Millisecond))
	r := newRig(t, scale)
	rec, sid := r.open(ModeNode)
	fmt.Fprint(rec, "before the crash\r\n")
	r.eventually("flush", func() bool { return strings.Contains(strings.Join(r.files(sid), " "), "1.part") })
	tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{SessionID: sid, Kind: string(types.SSHSessionKind), Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	auth := r.host.cfg.Auth
	auth.CreateTracker(t.Context(), tracker)
	if err := r.host.completeAbandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.auth.Events(TypeUpload)) != 0 {
		t.Fatal("completed while the tracker lives")
	}
	r.auth.With(func(a *sshtest.Auth) { a.Down = true })
	if err := r.host.completeAbandoned(t.Context()); err == nil {
		t.Fatal("an auth that is away does not stop the pass")
	}
	r.auth.With(func(a *sshtest.Auth) { a.Down = false })
	auth.RemoveTracker(t.Context(), sid)
	if err := r.host.completeAbandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.host.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("the missing end event", func() bool { return len(r.auth.Events(TypeEnd)) == 1 })
	end := r.auth.Events(TypeEnd)[0].(*events.SessionEnd)
	if end.SessionID != sid || !end.Interactive || end.Participants[0] != "alice" {
		t.Errorf("end event: %+v", end)
	}
	if len(r.auth.Events(TypeUpload)) != 2 {
		t.Errorf("%d upload events, want the completer's and the uploader's", len(r.auth.Events(TypeUpload)))
	}
}

func TestModeOffRecordsNoOutput(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeOff)
	fmt.Fprint(rec, "secret\r\n")
	rec.Complete(t.Context())
	r.host.scan(t.Context())
	if list := r.auth.Recording(sid); len(list) != 1 || list[0].GetType() != TypeStart {
		t.Errorf("recorded %v", list)
	}
}

func TestSyncResumesAndSendsAgain(t *testing.T) {
	r := newRig(t, 1)
	rec, sid := r.open(ModeNodeSync)
	fmt.Fprint(rec, "one\r\n")
	r.auth.Break(1) // of start and one, only start was stored
	fmt.Fprint(rec, "two\r\n")
	if err := rec.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, e := range r.auth.Recording(sid) {
		if p, ok := e.(*events.SessionPrint); ok {
			text.Write(p.Data)
		}
	}
	if got := text.String(); got != "one\r\ntwo\r\n" {
		t.Errorf("recorded %q", got)
	}
}

func TestStrictNeedsARecording(t *testing.T) {
	r := newRig(t, 1)
	r.auth.With(func(a *sshtest.Auth) { a.Down = true })
	strict := Options{SessionID: uuid.NewString(), Mode: ModeNodeSync, Strict: true}
	if _, err := r.host.Open(t.Context(), strict); err == nil {
		t.Error("a strict session began without a recording")
	}
	lax := Options{SessionID: uuid.NewString(), Mode: ModeNodeSync}
	rec, err := r.host.Open(t.Context(), lax)
	if err != nil {
		t.Fatalf("a best-effort session was refused: %v", err)
	}
	if _, err := rec.Write([]byte("unrecorded")); err != nil {
		t.Error(err)
	}
}

func TestEmitterLosesWhatItCannotDeliver(t *testing.T) {
	r := newRig(t, 1)
	r.auth.With(func(a *sshtest.Auth) { a.Down = true })
	r.host.cfg.Emitter.Emit(&events.SessionEnd{Metadata: events.Metadata{Type: TypeEnd}})
	r.host.cfg.Emitter.Flush(time.Second)
	r.auth.With(func(a *sshtest.Auth) { a.Down = false })
	r.host.cfg.Emitter.Emit(&events.SessionStart{Metadata: events.Metadata{Type: TypeStart}})
	r.eventually("the second event", func() bool { return len(r.auth.Events(TypeStart)) == 1 })
	if len(r.auth.Events(TypeEnd)) != 0 {
		t.Error("an event was delivered to an auth that was away")
	}
}

func TestStopUploadsLeavesRecordings(t *testing.T) {
	r := newRig(t, process.Scale(process.UploaderScan/(10*time.Millisecond)))
	if err := r.host.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.host.StopUploads()
	rec, sid := r.open(ModeNode)
	rec.Complete(t.Context())
	time.Sleep(100 * time.Millisecond)
	f, err := os.Open(r.host.tarPath(sid))
	if err != nil {
		t.Fatalf("the recording is not where it was left: %v", err)
	}
	defer f.Close()
	if list := decode(t, f); len(list) != 1 {
		t.Errorf("recorded %v", list)
	}
}

func TestFaultThatFindsNothingToDoLeavesARecordingWhole(t *testing.T) {
	for _, fault := range []faults.Name{faults.GapRecording, faults.TruncateRecording, faults.DuplicateRecording} {
		for prints := range 5 {
			t.Run(fmt.Sprintf("%s with %d prints", fault, prints), func(t *testing.T) {
				r := newRig(t, 1)
				r.host.cfg.Faults = faults.New(nil, faults.Rule{Name: fault})
				rec, sid := r.open(ModeNode)
				for range prints {
					fmt.Fprint(rec, "line")
				}
				rec.Emit(&events.SessionLeave{Metadata: events.Metadata{Type: TypeLeave}})
				rec.Emit(&events.SessionEnd{Metadata: events.Metadata{Type: TypeEnd}})
				rec.Complete(t.Context())
				r.host.scan(t.Context())
				list, struck := r.auth.Recording(sid), len(r.host.cfg.Faults.Entries())
				for i, e := range list[1:] {
					if e.GetIndex() < list[i].GetIndex() {
						t.Errorf("event %d has index %d after %d", i+1, e.GetIndex(), list[i].GetIndex())
					}
				}
				if whole := len(list) == prints+3; whole != (struck == 0) {
					t.Errorf("%d events of %d, %d faults recorded", len(list), prints+3, struck)
				}
			})
		}
	}
}
