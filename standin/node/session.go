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
	"shakedown.dev/shakedown/standin/sshutil"
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
	taken     bool // a program was asked for

	recorder *recorder.Recorder
	audited  bool // has session.start and the rest

	mu      sync.Mutex
	program Program
	gone    bool // the client closed the channel
}

// newSession accepts a session channel.
func (c *Conn) newSession(nch ssh.NewChannel) (sshutil.Session, <-chan *ssh.Request) {
	ch, reqs, err := nch.Accept()
	if err != nil {
		return nil, nil
	}
	c.sessions.Add(1)
	return &session{conn: c, ch: ch, id: uuid.NewString(), started: time.Now().UTC(), mode: c.srv.cfg.Cluster().SessionRecording}, reqs
}

// Request acts on one request. Starting a program may take time and has a goroutine, which then serves the program.
func (s *session) Request(ctx context.Context, req *ssh.Request) {
	starts, err := s.handle(req)
	switch {
	case err != nil:
		s.refuse(req, err)
	case starts:
		go s.start(ctx, req)
	case req.WantReply:
		req.Reply(true, nil)
	}
}

// start launches the program and serves it. Nothing of the program may be seen before the reply.
func (s *session) start(ctx context.Context, req *ssh.Request) {
	p, err := s.launch(ctx)
	if err != nil {
		s.refuse(req, err)
		return
	}
	if req.WantReply {
		req.Reply(true, nil)
	}
	s.run(p)
}

func (s *session) refuse(req *ssh.Request, err error) {
	s.conn.srv.cfg.Log.Debug("session request refused", "session", s.id, "type", req.Type, "err", err)
	if errors.Is(err, errUnsupported) {
		req.Reply(false, []byte(err.Error()))
		return
	}
	io.WriteString(s.ch.Stderr(), err.Error()+"\n")
	req.Reply(false, []byte(err.Error()))
	s.ch.Close()
}

var errUnsupported = errors.New("not supported")

// handle acts on one request, or finds that it starts a program; an error refuses it.
func (s *session) handle(req *ssh.Request) (starts bool, err error) {
	if s.taken && (req.Type == "env" || req.Type == "pty-req") {
		return false, nil // too late to matter
	}
	switch req.Type {
	case "env":
		var kv struct{ Name, Value string }
		if err := decode(req, &kv); err != nil {
			return false, err
		}
		s.setEnv(kv.Name, kv.Value)
		return false, nil
	case "pty-req":
		return false, s.takePTY(req)
	case "window-change":
		return false, s.resize(req)
	case "signal":
		var sig struct{ Name string }
		if err := decode(req, &sig); err != nil {
			return false, err
		}
		if p := s.running(); p != nil {
			p.Signal(sig.Name)
		}
		return false, nil
	case "shell", "exec", "subsystem":
		return true, s.takeProgram(req)
	case sshutil.AgentForwardRequest:
		return false, nil // as the real node, never refused; the stand-in's shells get no agent
	}
	return false, fmt.Errorf("%w: request type %q", errUnsupported, req.Type)
}

func decode(req *ssh.Request, into any) error {
	if err := ssh.Unmarshal(req.Payload, into); err != nil {
		return fmt.Errorf("malformed %s request: %w", req.Type, err)
	}
	return nil
}

// takeProgram notes what to run; a session runs one program.
func (s *session) takeProgram(req *ssh.Request) error {
	if s.taken {
		return errors.New("a program runs in this session already")
	}
	var name struct{ Value string }
	if req.Type != "shell" {
		if err := decode(req, &name); err != nil {
			return err
		}
	}
	switch req.Type {
	case "shell":
		s.wantShell = true
	case "exec":
		s.command = name.Value
	case "subsystem":
		s.subsystem = name.Value
	}
	s.taken = true
	return nil
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

func (s *session) takePTY(r *ssh.Request) error {
	var req struct {
		Term                               string
		Columns, Rows, PixWidth, PixHeight uint32
		Modes                              string
	}
	if err := decode(r, &req); err != nil {
		return err
	}
	s.pty = &PTY{Term: req.Term, Width: req.Columns, Height: req.Rows, Modes: parseModes([]byte(req.Modes))}
	s.pty.fill()
	return nil
}

// fill replaces a size nobody gave by the real node's. The terminal's type stays unknown.
func (p *PTY) fill() {
	if p.Width == 0 || p.Height == 0 {
		p.Width, p.Height = 80, 25
	}
}

func (s *session) resize(r *ssh.Request) error {
	var req struct{ Columns, Rows, PixWidth, PixHeight uint32 }
	if err := decode(r, &req); err != nil {
		return err
	}
	if p := s.running(); p != nil && s.pty != nil {
		s.emit(s.resizeEvent(req.Columns, req.Rows))
		p.Resize(req.Columns, req.Rows)
	}
	return nil
}

func (s *session) running() Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program
}

// Gone ends the program of a client that closed its channel or connection.
func (s *session) Gone() {
	s.conn.sessions.Add(-1)
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
