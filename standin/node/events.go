package node

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/recorder"
)

const (
	protocolSSH = "ssh"
	dataIndex   = math.MaxInt32 - 1 // of session.data, behind all events of a recording
)

func (c *Conn) userMetadata() events.UserMetadata {
	return events.UserMetadata{Login: c.User(), User: c.Identity.User, Impersonator: c.Identity.Certificate.Extensions["impersonator"]}
}

func (c *Conn) connectionMetadata() events.ConnectionMetadata {
	m := events.ConnectionMetadata{RemoteAddr: c.wire.RemoteAddr().String(), Protocol: protocolSSH}
	if !c.srv.cfg.Tunnel {
		m.LocalAddr = c.wire.LocalAddr().String()
	}
	return m
}

// meta is what all events of a session begin with. The cluster's name is added when they are emitted.
func (s *session) meta(kind, code string) events.Metadata {
	return events.Metadata{Type: kind, Code: code}
}

func (s *session) sessionMetadata() events.SessionMetadata {
	return events.SessionMetadata{SessionID: s.id}
}

func (s *session) startEvent() *events.SessionStart {
	e := &events.SessionStart{
		Metadata: s.meta(recorder.TypeStart, recorder.CodeStart), ServerMetadata: s.conn.target.Server, SessionMetadata: s.sessionMetadata(),
		UserMetadata: s.conn.userMetadata(), ConnectionMetadata: s.conn.connectionMetadata(), SessionRecording: s.mode,
	}
	if s.command != "" {
		e.InitialCommand = []string{s.command}
	} else {
		e.InitialCommand = []string{""}
	}
	if s.pty != nil {
		e.TerminalSize = terminalSize(s.pty.Width, s.pty.Height)
	}
	return e
}

func terminalSize(width, height uint32) string { return fmt.Sprintf("%d:%d", width, height) }

func (s *session) resizeEvent(width, height uint32) *events.Resize {
	return &events.Resize{
		Metadata: s.meta(recorder.TypeResize, recorder.CodeResize), ServerMetadata: s.conn.target.Server, SessionMetadata: s.sessionMetadata(),
		UserMetadata: s.conn.userMetadata(), TerminalSize: terminalSize(width, height),
	}
}

func (s *session) leaveEvent() *events.SessionLeave {
	return &events.SessionLeave{
		Metadata: s.meta(recorder.TypeLeave, recorder.CodeLeave), ServerMetadata: s.conn.target.Server, SessionMetadata: s.sessionMetadata(),
		UserMetadata: s.conn.userMetadata(),
	}
}

func (s *session) endEvent() *events.SessionEnd {
	connection := s.conn.connectionMetadata()
	connection.LocalAddr = ""
	return &events.SessionEnd{
		Metadata: s.meta(recorder.TypeEnd, recorder.CodeEnd), ServerMetadata: s.conn.target.Server, SessionMetadata: s.sessionMetadata(),
		UserMetadata: s.conn.userMetadata(), ConnectionMetadata: connection,
		Interactive: s.pty != nil, StartTime: s.started, EndTime: time.Now().UTC(), SessionRecording: s.mode,
		Participants: []string{s.conn.Identity.User},
	}
}

// dataEvent reports what the connection carried since it began, as the client sees it. It goes to the audit log only; what is no session of a shell or command has no session id.
func (c *Conn) dataEvent(session string) *events.SessionData {
	connection := c.connectionMetadata()
	connection.Protocol = ""
	return &events.SessionData{
		Metadata:        events.Metadata{Type: recorder.TypeData, Code: recorder.CodeData, Index: dataIndex},
		ServerMetadata:  events.ServerMetadata{ServerID: c.target.Server.ServerID, ServerNamespace: c.target.Server.ServerNamespace},
		SessionMetadata: events.SessionMetadata{SessionID: session}, UserMetadata: c.userMetadata(), ConnectionMetadata: connection,
		BytesTransmitted: uint64(c.wire.read.Load()), BytesReceived: uint64(c.wire.written.Load()),
	}
}

func (s *session) execEvent(exit Exit) *events.Exec {
	server := s.conn.target.Server
	server.ServerLabels, server.ServerAddr = nil, ""
	e := &events.Exec{
		Metadata: s.meta(recorder.TypeExec, recorder.CodeExec), ServerMetadata: server, SessionMetadata: s.sessionMetadata(),
		UserMetadata: s.conn.userMetadata(), ConnectionMetadata: s.conn.addresses(),
		CommandMetadata: events.CommandMetadata{Command: s.command, ExitCode: strconv.FormatUint(uint64(exit.Status), 10)},
	}
	if exit.Status != 0 || exit.Signal != "" {
		e.Code = recorder.CodeExecFailure
		e.Error = fmt.Sprintf("exit status %d", exit.Status)
	}
	return e
}

// addresses are both ends of the connection, as some events have them whatever the way here.
func (c *Conn) addresses() events.ConnectionMetadata {
	return events.ConnectionMetadata{RemoteAddr: c.wire.RemoteAddr().String(), LocalAddr: c.wire.LocalAddr().String()}
}

func (c *Conn) portEvent(addr string, err error) *events.PortForward {
	e := &events.PortForward{
		Metadata:     events.Metadata{Type: recorder.TypePortForward, Code: recorder.CodePortForward},
		UserMetadata: c.userMetadata(), ConnectionMetadata: c.addresses(), Addr: addr,
		Status: events.Status{Success: err == nil},
	}
	if err != nil {
		e.Code, e.Status.Error = recorder.CodePortForwardFailure, err.Error()
	}
	return e
}

// environment is what the real node sets beside the login's own environment.
func (s *session) environment() []string {
	env := append([]string(nil), s.env...)
	remoteHost, remotePort, err1 := net.SplitHostPort(s.conn.wire.RemoteAddr().String())
	localHost, localPort, err2 := net.SplitHostPort(s.conn.wire.LocalAddr().String())
	if err1 == nil && err2 == nil {
		env = append(env,
			fmt.Sprintf("SSH_CLIENT=%s %s %s", remoteHost, remotePort, localPort),
			fmt.Sprintf("SSH_CONNECTION=%s %s %s %s", remoteHost, remotePort, localHost, localPort))
	}
	if s.pty != nil {
		env = append(env, "TERM="+s.pty.Term)
	}
	return append(env,
		"SSH_SESSION_ID="+s.id,
		"SSH_TELEPORT_HOST_UUID="+s.conn.target.Server.ServerID,
		"SSH_TELEPORT_CLUSTER_NAME="+s.conn.srv.cfg.Auth.Identity().Cluster,
		"SSH_TELEPORT_USER="+s.conn.Identity.User,
	)
}
