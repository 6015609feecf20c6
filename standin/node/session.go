package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/recorder"
)

// execLinger is how long the real node waits after a command without terminal before it ends the session.
const execLinger = 2 * time.Second

// session is one session channel.
type session struct {
	conn    *Conn
	ch      ssh.Channel
	id      string
	started time.Time
	mode    string // recording mode when it began

	env       []string
	pty       *PTY
	command   string
	subsystem string
	wantShell bool

	recorder *recorder.Recorder
	audited  bool // has session.start and the rest

	mu      sync.Mutex
	program Program
	gone    bool // the client closed the channel
	strikes []*time.Timer
}

// serveSession handles one session channel's requests until it closes.
func (c *Conn) serveSession(ctx context.Context, nch ssh.NewChannel) {
	defer c.sessions.Add(-1)
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	s := &session{conn: c, ch: ch, id: uuid.NewString(), started: time.Now().UTC(), mode: c.srv.cfg.Cluster().SessionRecording}
	defer s.clientGone()
	for req := range reqs {
		err := s.handle(ctx, req)
		if err != nil {
			s.refuse(req, err)
			continue
		}
		if req.WantReply {
			req.Reply(true, nil)
		}
		// Nothing of the program may be seen before the reply.
		s.begin()
	}
}

func (s *session) refuse(req *ssh.Request, err error) {
	s.conn.srv.cfg.Log.Debug("session request refused", "session", s.id, "type", req.Type, "err", err)
	if errors.Is(err, errUnsupported) {
		req.Reply(false, []byte(err.Error()))
		return
	}
	io.WriteString(s.ch.Stderr(), err.Error())
	req.Reply(false, []byte(err.Error()))
	s.ch.Close()
}

var errUnsupported = errors.New("not supported")

// handle acts on one request; an error refuses it.
func (s *session) handle(ctx context.Context, req *ssh.Request) error {
	switch req.Type {
	case "env":
		var kv struct{ Name, Value string }
		if err := ssh.Unmarshal(req.Payload, &kv); err != nil {
			return fmt.Errorf("malformed env request: %w", err)
		}
		s.setEnv(kv.Name, kv.Value)
		return nil
	case "pty-req":
		return s.takePTY(req.Payload)
	case "window-change":
		return s.resize(req.Payload)
	case "signal":
		var sig struct{ Name string }
		if err := ssh.Unmarshal(req.Payload, &sig); err != nil {
			return fmt.Errorf("malformed signal request: %w", err)
		}
		if p := s.running(); p != nil {
			p.Signal(sig.Name)
		}
		return nil
	case "shell":
		s.wantShell = true
		return s.launch(ctx)
	case "exec":
		var exec struct{ Command string }
		if err := ssh.Unmarshal(req.Payload, &exec); err != nil {
			return fmt.Errorf("malformed exec request: %w", err)
		}
		s.command = exec.Command
		return s.launch(ctx)
	case "subsystem":
		var sub struct{ Name string }
		if err := ssh.Unmarshal(req.Payload, &sub); err != nil {
			return fmt.Errorf("malformed subsystem request: %w", err)
		}
		s.subsystem = sub.Name
		return s.launch(ctx)
	case "auth-agent-req@openssh.com":
		return nil // as the real node, never refused; the stand-in's shells get no agent
	}
	return fmt.Errorf("%w: request type %q", errUnsupported, req.Type)
}

// EnvSession is the variable by which a recording proxy tells the node the session's id.
const EnvSession = "TELEPORT_SESSION"

func (s *session) setEnv(name, value string) {
	if name == EnvSession && !s.audited {
		if id, err := uuid.Parse(value); err == nil {
			s.id = id.String()
		}
	}
	s.env = append(s.env, name+"="+value)
}

func (s *session) takePTY(payload []byte) error {
	var req struct {
		Term                               string
		Columns, Rows, PixWidth, PixHeight uint32
		Modes                              string
	}
	if err := ssh.Unmarshal(payload, &req); err != nil {
		return fmt.Errorf("malformed pty-req: %w", err)
	}
	s.pty = &PTY{Term: req.Term, Width: req.Columns, Height: req.Rows, Modes: parseModes([]byte(req.Modes))}
	s.pty.fill()
	return nil
}

// fill replaces sizes nobody gave by the real node's.
func (p *PTY) fill() {
	if p.Width == 0 || p.Height == 0 {
		p.Width, p.Height = 80, 25
	}
	if p.Term == "" {
		p.Term = "xterm"
	}
}

func (s *session) resize(payload []byte) error {
	var req struct{ Columns, Rows, PixWidth, PixHeight uint32 }
	if err := ssh.Unmarshal(payload, &req); err != nil {
		return fmt.Errorf("malformed window-change: %w", err)
	}
	p := s.running()
	if p == nil || s.pty == nil {
		return nil
	}
	s.emit(s.resizeEvent(req.Columns, req.Rows))
	p.Resize(req.Columns, req.Rows)
	return nil
}

func (s *session) running() Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program
}

// clientGone ends the program of a client that closed its channel or connection.
func (s *session) clientGone() {
	s.mu.Lock()
	s.gone = true
	p := s.program
	s.mu.Unlock()
	if p != nil {
		p.Kill()
	}
	s.ch.Close()
}

// parseModes reads encoded terminal modes (RFC 4254, 8).
func parseModes(raw []byte) map[uint8]uint32 {
	modes := map[uint8]uint32{}
	for len(raw) >= 5 && raw[0] != 0 && raw[0] < 160 {
		modes[raw[0]] = uint32(raw[1])<<24 | uint32(raw[2])<<16 | uint32(raw[3])<<8 | uint32(raw[4])
		raw = raw[5:]
	}
	return modes
}
