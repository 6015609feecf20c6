package kube

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/recorder"
)

// stream is an exec or attach, or a forwarded port, from the upgrade on.
type stream struct {
	*request
	id       string
	command  []string
	tty      bool
	port     bool
	query    map[string][]string
	began    time.Time
	recorder *recorder.Recorder
	tap      *tap

	toPod, fromPod atomic.Int64
}

// newStream is nil for requests that are no streams.
func (r *request) newStream(hr *http.Request) *stream {
	q := hr.URL.Query()
	s := &stream{request: r, id: uuid.NewString(), command: q["command"], tty: isTrue(q.Get("tty")), query: q}
	switch {
	case !isUpgrade(hr):
		return nil
	case strings.HasPrefix(r.resource.kind, "pods/exec"), strings.HasPrefix(r.resource.kind, "pods/attach"):
		return s
	case strings.HasPrefix(r.resource.kind, "pods/portforward"):
		s.port = true
		return s
	}
	return nil
}

func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

// begin starts the session once the API server has agreed to the upgrade. An error refuses it to the client.
func (s *stream) begin(resp *http.Response) error {
	body, ok := resp.Body.(readWriteCloser)
	if !ok {
		return errors.New("upgraded answer cannot be written to")
	}
	s.began = time.Now().UTC()
	if s.port {
		s.emitter.Emit(s.portEvent())
		return nil
	}
	if s.tty {
		if err := s.openRecording(); err != nil {
			return err
		}
	}
	s.emit(s.startEvent())
	s.tap = newTap(resp.Header, s)
	resp.Body = &tapped{readWriteCloser: body, stream: s}
	return nil
}

func (s *stream) openRecording() error {
	ctx := context.WithoutCancel(s.ctx)
	if err := s.trackers.Track(ctx, node.Tracked{
		ID: s.id, Kind: types.KubernetesSessionKind, User: s.user.Name, Started: s.began, Hostname: s.name, Address: s.api.url.Host,
	}); err != nil {
		return err
	}
	mode := s.cluster.Get().SessionRecording
	rec, err := s.service.recorder.Open(ctx, recorder.Options{
		SessionID: s.id, Mode: mode, ServerID: s.env.Auth.Identity().HostUUID, Strict: s.access.strict,
	})
	s.recorder = rec
	return err
}

// emit goes into the recording of a terminal, and straight to the audit log otherwise.
func (s *stream) emit(e events.AuditEvent) {
	if s.recorder == nil {
		s.emitter.Emit(e)
		return
	}
	if err := s.recorder.Emit(e); err != nil {
		s.env.Log.Warn("emit session event", "session", s.id, "err", err)
	}
}

// output is what the pod wrote to stdout or stderr.
func (s *stream) output(p []byte) {
	if s.recorder != nil {
		s.recorder.Write(p) // strict sessions are ended by the recorder's own error at the next event
	}
}

// resized is a change of the terminal's size.
func (s *stream) resized(width, height int) {
	if s.recorder == nil {
		return
	}
	s.emit(&events.Resize{
		Metadata: events.Metadata{Type: recorder.TypeResize, Code: recorder.CodeResize}, UserMetadata: s.userMetadata(), ServerMetadata: events.ServerMetadata{ServerNamespace: "default"},
		ConnectionMetadata: s.connectionMetadata(), SessionMetadata: events.SessionMetadata{SessionID: s.id}, KubernetesClusterMetadata: s.clusterMetadata(),
		KubernetesPodMetadata: s.podMetadata(), TerminalSize: strconv.Itoa(width) + ":" + strconv.Itoa(height),
	})
}

// end finishes the session after the stream. A process that is being killed leaves no end.
func (s *stream) end() {
	if s.tap == nil || s.abandoned.Load() {
		return
	}
	s.tap.close()
	s.emit(s.execEvent())
	if s.recorder != nil {
		s.emit(s.dataEvent())
	}
	s.emit(s.endEvent())
	if s.recorder == nil {
		return
	}
	s.trackers.Ended(s.id)
	if err := s.recorder.Complete(context.Background()); err != nil {
		s.env.Log.Warn("complete recording", "session", s.id, "err", err)
	}
	s.env.Faults.Forget(s.id)
}

func (s *stream) podMetadata() events.KubernetesPodMetadata {
	m := events.KubernetesPodMetadata{KubernetesPodName: s.resource.name, KubernetesPodNamespace: s.resource.namespace}
	if c := s.query["container"]; len(c) > 0 {
		m.KubernetesContainerName = c[0]
	}
	return m
}

func (s *stream) startEvent() *events.SessionStart {
	server := s.serverMetadata()
	server.ServerHostname, server.ServerAddr = s.env.Auth.Identity().Cluster, s.api.url.Host
	e := &events.SessionStart{
		Metadata: events.Metadata{Type: recorder.TypeStart, Code: recorder.CodeStart}, UserMetadata: s.userMetadata(), ServerMetadata: server,
		ConnectionMetadata: s.connectionMetadata(), SessionMetadata: events.SessionMetadata{SessionID: s.id}, KubernetesClusterMetadata: s.clusterMetadata(),
		KubernetesPodMetadata: s.podMetadata(), InitialCommand: s.command, SessionRecording: s.cluster.Get().SessionRecording,
	}
	if s.tty {
		e.TerminalSize = "100:100" // as the real program says before the first resize
	}
	return e
}

func (s *stream) execEvent() *events.Exec {
	e := &events.Exec{
		Metadata: events.Metadata{Type: recorder.TypeExec, Code: recorder.CodeExec}, UserMetadata: s.userMetadata(), ServerMetadata: s.serverMetadata(),
		ConnectionMetadata: s.connectionMetadata(), SessionMetadata: events.SessionMetadata{SessionID: s.id}, KubernetesClusterMetadata: s.clusterMetadata(),
		KubernetesPodMetadata: s.podMetadata(), CommandMetadata: events.CommandMetadata{Command: strings.Join(s.command, " ")},
	}
	if code, msg, failed := s.tap.result(); failed {
		e.Code, e.ExitCode, e.Error = recorder.CodeExecFailure, code, msg
	}
	return e
}

func (s *stream) dataEvent() *events.SessionData {
	return &events.SessionData{
		Metadata: events.Metadata{Type: recorder.TypeData, Code: recorder.CodeData}, UserMetadata: s.userMetadata(), ServerMetadata: s.serverMetadata(),
		ConnectionMetadata: s.connectionMetadata(), SessionMetadata: events.SessionMetadata{SessionID: s.id},
		BytesTransmitted: uint64(s.toPod.Load()), BytesReceived: uint64(s.fromPod.Load()),
	}
}

func (s *stream) endEvent() *events.SessionEnd {
	return &events.SessionEnd{
		Metadata: events.Metadata{Type: recorder.TypeEnd, Code: recorder.CodeEnd}, UserMetadata: s.userMetadata(), ServerMetadata: s.serverMetadata(),
		ConnectionMetadata: s.connectionMetadata(), SessionMetadata: events.SessionMetadata{SessionID: s.id}, KubernetesClusterMetadata: s.clusterMetadata(),
		KubernetesPodMetadata: s.podMetadata(), InitialCommand: s.command, SessionRecording: s.cluster.Get().SessionRecording,
		Interactive: s.tty, Participants: []string{s.user.Name}, StartTime: s.began, EndTime: time.Now().UTC(),
	}
}

func (s *stream) portEvent() *events.PortForward {
	return &events.PortForward{
		Metadata: events.Metadata{Type: recorder.TypePortForward, Code: recorder.CodePortForward}, UserMetadata: s.userMetadata(), ConnectionMetadata: s.connectionMetadata(),
		Addr: strings.Join(s.query["ports"], ","), Status: events.Status{Success: true},
	}
}
