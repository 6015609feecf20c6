package audit

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// server is an auth server with an audit log in memory.
type server struct {
	proto.UnimplementedAuthServiceServer
	log       []events.AuditEvent
	recording []events.AuditEvent
	page      int
	failures  atomic.Int32 // calls still to fail
	code      codes.Code
	calls     atomic.Int32
}

func (s *server) fail() error {
	s.calls.Add(1)
	if s.failures.Add(-1) >= 0 {
		return status.Error(s.code, "planted")
	}
	return nil
}

func (s *server) Ping(context.Context, *proto.PingRequest) (*proto.PingResponse, error) {
	return &proto.PingResponse{ClusterName: "lab.example.com", ServerVersion: "13"}, s.fail()
}

func (s *server) GetEvents(_ context.Context, r *proto.GetEventsRequest) (*proto.Events, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	from := 0
	if r.StartKey != "" {
		from = int(r.StartKey[0] - 'a')
	}
	out := &proto.Events{}
	for _, e := range s.log[from:min(from+s.page, len(s.log))] {
		one, err := events.ToOneOf(e)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, one)
	}
	if from+s.page < len(s.log) {
		out.LastKey = string(rune('a' + from + s.page))
	}
	return out, nil
}

func (s *server) StreamSessionEvents(r *proto.StreamSessionEventsRequest, out proto.AuthService_StreamSessionEventsServer) error {
	if err := s.fail(); err != nil {
		return err
	}
	if r.SessionID != "there" || len(s.recording) == 0 {
		return status.Error(codes.NotFound, "a recording for session was not found")
	}
	for _, e := range s.recording {
		one, err := events.ToOneOf(e)
		if err != nil {
			return err
		}
		if err := out.Send(one); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) GetActiveSessionTrackers(_ *emptypb.Empty, out proto.AuthService_GetActiveSessionTrackersServer) error {
	return out.Send(&types.SessionTrackerV1{Spec: types.SessionTrackerSpecV1{SessionID: "x", Kind: "ssh", State: types.SessionState_SessionStateRunning}})
}

func start(t *testing.T, s *server) *Log {
	t.Helper()
	a, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := a.TLS(identity.ServerName(a.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)), grpc.ForceServerCodecV2(codec{}))
	proto.RegisterAuthServiceServer(g, s)
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	id, _, err := a.Identity("auditor", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Address: ln.Addr().String(), Identity: func() *identity.Identity { return id }, Rate: 1000, Patience: 700 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func meta(typ string, index int64) events.Metadata {
	return events.Metadata{Type: typ, Index: index, Time: time.Unix(1e9+index, 0).UTC()}
}

func TestEventsPageByPage(t *testing.T) {
	s := &server{page: 2, code: codes.Unavailable}
	for i := range 5 {
		s.log = append(s.log, &events.SessionStart{Metadata: meta(SessionStart, int64(i)), SessionMetadata: events.SessionMetadata{SessionID: string(rune('0' + i))}, UserMetadata: events.UserMetadata{User: "load-0", Login: "root"}})
	}
	s.log = append(s.log,
		&events.SessionRecordingAccess{Metadata: meta(SessionAccess, 5), SessionID: "0", UserMetadata: events.UserMetadata{User: "auditor"}},
		&events.SessionRecordingAccess{Metadata: meta(SessionAccess, 6), SessionID: "0", UserMetadata: events.UserMetadata{User: "somebody"}})
	s.failures.Store(1)
	l := start(t, s)
	var got []string
	for e, err := range l.Events(t.Context(), time.Unix(0, 0), time.Now()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type+e.Session+e.User)
	}
	s.log = append(s.log, &events.SessionStart{Metadata: events.Metadata{Type: SessionStart, Time: time.Now().Add(time.Hour)}})
	want := []string{"session.start0load-0", "session.start1load-0", "session.start2load-0", "session.start3load-0", "session.start4load-0", "session.recording.accesssomebody"}
	for i := range got {
		got[i] = strings.Replace(got[i], "access0", "access", 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: all pages once, without our own look", got, want)
	}
}

func TestPlay(t *testing.T) {
	print := func(index int64, text string) events.AuditEvent {
		return &events.SessionPrint{Metadata: meta("print", index), Data: []byte(text)}
	}
	begin, end := &events.SessionStart{Metadata: meta(SessionStart, 0)}, &events.SessionEnd{Metadata: meta(SessionEnd, 3)}
	tests := []struct {
		because   string
		recording []events.AuditEvent
		want      Playback
	}{
		{"a whole one", []events.AuditEvent{begin, print(1, "a\r\n"), print(2, "b\r\n"), end}, Playback{Output: []byte("a\r\nb\r\n"), Events: 4, Started: true, Ended: true}},
		{"a tail is missing", []events.AuditEvent{begin, print(1, "a\r\n")}, Playback{Output: []byte("a\r\n"), Events: 2, Started: true}},
		{"a gap", []events.AuditEvent{begin, print(2, "b\r\n"), end}, Playback{Output: []byte("b\r\n"), Events: 3, Started: true, Ended: true, Missing: [][2]int64{{1, 1}}}},
		{"a resumed stream sent some again", []events.AuditEvent{begin, print(1, "a\r\n"), print(1, "a\r\n"), print(2, "b\r\n"), end}, Playback{Output: []byte("a\r\nb\r\n"), Events: 4, Started: true, Ended: true, Duplicates: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			s := &server{recording: tt.recording, code: codes.Unavailable}
			s.failures.Store(1) // the first try fails: nothing may be counted twice
			got, err := start(t, s).Play(t.Context(), "there")
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Output) != string(tt.want.Output) || got.Events != tt.want.Events || got.Started != tt.want.Started || got.Ended != tt.want.Ended || got.Duplicates != tt.want.Duplicates || !slices.Equal(got.Missing, tt.want.Missing) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Run("a recording that is not there", func(t *testing.T) {
		if _, err := start(t, &server{}).Play(t.Context(), "elsewhere"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
	t.Run("a role that may not look is told so, and not tried again", func(t *testing.T) {
		s := &server{code: codes.PermissionDenied}
		s.failures.Store(100)
		_, err := start(t, s).Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), "must allow list and read") || s.calls.Load() != 1 {
			t.Errorf("after %d calls: %v", s.calls.Load(), err)
		}
	})
	t.Run("a server that stays away is given up after the patience", func(t *testing.T) {
		s := &server{code: codes.Unavailable}
		s.failures.Store(1000)
		_, err := start(t, s).Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no auth server answers") || s.calls.Load() < 3 {
			t.Errorf("after %d calls: %v", s.calls.Load(), err)
		}
	})
}

func TestActive(t *testing.T) {
	got, err := start(t, &server{}).Active(t.Context())
	if err != nil || len(got) != 1 || got[0].Session != "x" || got[0].Kind != "ssh" || !strings.Contains(got[0].State, "Running") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLines(t *testing.T) {
	p := Playback{Output: []byte("\x1b[?2004hroot@vm:~# echo 1\r\n\x1b[?2004l\r1\r\n\x1b]0;title\x07\x1b[31mred\x1b[0m\r\nhalf")}
	want := []string{"root@vm:~# echo 1", "1", "red", "half"}
	if got := p.Lines(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGroup(t *testing.T) {
	event := func(id string, at int64) events.AuditEvent {
		m := meta(SessionStart, at)
		m.ID = id
		return &events.SessionStart{Metadata: m}
	}
	one := start(t, &server{page: 9, log: []events.AuditEvent{event("a", 1), event("c", 3)}})
	two := start(t, &server{page: 9, log: []events.AuditEvent{event("b", 2), event("c", 3)}, recording: []events.AuditEvent{event("x", 0)}})
	away := &server{page: 9, code: codes.PermissionDenied}
	away.failures.Store(1000)
	got, err := Group{one, two}.Events(t.Context(), time.Unix(0, 0), time.Now())
	var ids string
	for _, e := range got {
		ids += e.Raw.GetID()
	}
	if ids != "abc" || err != nil {
		t.Errorf("got %q, %v, want each once, oldest first", ids, err)
	}
	if _, err := (Group{one, start(t, away)}).Events(t.Context(), time.Unix(0, 0), time.Now()); err == nil {
		t.Error("a part that could not be read was passed over")
	}
	if p, err := (Group{one, two}).Play(t.Context(), "there"); err != nil || !p.Started {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := (Group{one, two}).Play(t.Context(), "nowhere"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if _, err := (Group{one, start(t, away)}).Play(t.Context(), "nowhere"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("got %v: a log that cannot be read may have the recording", err)
	}
}
