package ssh

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/history"
)

// Session is one terminal, command or subsystem on a node. One goroutine may read, another write.
type Session struct {
	conn *Conn
	ch   ssh.Channel
	reqs <-chan *ssh.Request
	own  bool // the connection is this session's alone

	status  atomic.Pointer[exit]
	phases  []history.PhaseTime
	wantPTY bool
}

type exit struct {
	status int
	signal string
	words  string
}

// Start says what to run. With neither Command nor Subsystem it is the login shell.
type Start struct {
	PTY        bool // ask for a terminal; Teleport records only sessions that have one
	Cols, Rows int  // of the terminal; zero: 80 × 24
	Echo       bool // let the terminal echo what is typed
	Command    string
	Subsystem  string
	Agent      bool // ask the node to forward the agent
	Env        map[string]string
}

// Open connects and starts one session that owns the connection: Close ends both. Every error is an *OpenError.
func (c *Client) Open(ctx context.Context, p Proxy, t Target, s Start) (*Session, error) {
	conn, err := c.Connect(ctx, p, t)
	if err != nil {
		return nil, err
	}
	return conn.only(ctx, s)
}

// OpenDirect is Open over ConnectDirect.
func (c *Client) OpenDirect(ctx context.Context, address, name string, t Target, s Start) (*Session, error) {
	conn, err := c.ConnectDirect(ctx, address, name, t)
	if err != nil {
		return nil, err
	}
	return conn.only(ctx, s)
}

func (c *Conn) only(ctx context.Context, s Start) (*Session, error) {
	session, err := c.Start(ctx, s)
	if err != nil {
		c.Close()
		return nil, err
	}
	session.own = true
	return session, nil
}

// Start begins a session on the connection. Every error is an *OpenError of phase shell; its Phases are the
// connection's too. If ctx or the client's time limit ends first, the whole connection is closed.
func (c *Conn) Start(ctx context.Context, s Start) (*Session, error) {
	o := &opening{client: c.client, target: c.target, conn: c, phases: append([]history.PhaseTime(nil), c.phases...)}
	session := &Session{conn: c, wantPTY: s.PTY}
	err := o.step(ctx, history.PhaseShell, o.abort, func(context.Context) (err error) {
		if session.ch, session.reqs, err = c.node.OpenChannel("session", nil); err != nil {
			return openRefusal("session channel", err)
		}
		return session.begin(s)
	})
	if err != nil {
		if session.ch != nil {
			session.ch.Close()
		}
		e := &OpenError{Phase: history.PhaseShell, Phases: o.phases, Err: err, Cut: cutOf(err)}
		if r, ok := err.(*refusal); ok {
			e.Reason, e.Cut = r.reason, history.CutDenied
		}
		return nil, e
	}
	session.phases = o.phases
	return session, nil
}

func (s *Session) begin(start Start) error {
	for name, value := range start.Env {
		// Servers refuse what they do not like; that is no reason to fail.
		if _, err := s.ch.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{name, value})); err != nil {
			return err
		}
	}
	if start.Agent {
		if err := s.request("auth-agent-req@openssh.com", nil); err != nil {
			return err
		}
	}
	if start.PTY {
		if err := s.request("pty-req", ptyRequest(start)); err != nil {
			return err
		}
	}
	switch {
	case start.Subsystem != "":
		return s.request("subsystem", ssh.Marshal(struct{ Name string }{start.Subsystem}))
	case start.Command != "":
		return s.request("exec", ssh.Marshal(struct{ Command string }{start.Command}))
	}
	return s.request("shell", nil)
}

func (s *Session) request(name string, payload []byte) error {
	ok, err := s.ch.SendRequest(name, true, payload)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !ok {
		return &refusal{name, lastWords(s.ch, refusalWait)}
	}
	return nil
}

// ptyRequest is RFC 4254, section 6.2; its modes are opcode 53 (ECHO), then two speeds, then the end.
func ptyRequest(s Start) []byte {
	cols, rows := s.Cols, s.Rows
	if cols == 0 {
		cols = 80
	}
	if rows == 0 {
		rows = 24
	}
	echo := byte(0)
	if s.Echo {
		echo = 1
	}
	return ssh.Marshal(struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}{"xterm", uint32(cols), uint32(rows), 0, 0, string([]byte{53, 0, 0, 0, echo, 128, 0, 0, 0x96, 0, 129, 0, 0, 0x96, 0, 0})})
}

// Phases are those of the connection, and the shell's.
func (s *Session) Phases() []history.PhaseTime { return s.phases }

// Conn is the connection the session runs on.
func (s *Session) Conn() *Conn { return s.conn }

// Read reads what the remote side writes; io.EOF means that it will write no more, and End says why.
func (s *Session) Read(p []byte) (int, error) {
	n, err := s.ch.Read(p)
	s.takeRequests()
	return n, err
}

// Write sends input. It blocks while the remote side does not read.
func (s *Session) Write(p []byte) (int, error) { return s.ch.Write(p) }

// CloseWrite ends the input, as Ctrl-D does for a program that reads to the end.
func (s *Session) CloseWrite() error { return s.ch.CloseWrite() }

// Stderr reads the error stream; terminals have none.
func (s *Session) Stderr() io.Reader { return s.ch.Stderr() }

// Signal sends a signal by its name without SIG ("TERM").
func (s *Session) Signal(name string) error {
	_, err := s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{name}))
	return err
}

// Resize tells the terminal's new size.
func (s *Session) Resize(cols, rows int) error {
	_, err := s.ch.SendRequest("window-change", false, ssh.Marshal(struct{ Cols, Rows, Width, Height uint32 }{uint32(cols), uint32(rows), 0, 0}))
	return err
}

// ServerID is the session's id in the audit log if the server told it (Teleport 14 and later), else empty.
// Where it is empty, $SSH_SESSION_ID has it in the session's environment.
func (s *Session) ServerID() string {
	if id := s.conn.sessionID.Load(); id != nil {
		return *id
	}
	return ""
}

// Close ends the session, and the connection if it is the session's alone.
func (s *Session) Close() error {
	if s.own {
		return s.conn.Close()
	}
	return s.ch.Close()
}

// takeRequests looks at what has come in besides data, without waiting.
func (s *Session) takeRequests() {
	for {
		select {
		case req, ok := <-s.reqs:
			if !ok {
				s.reqs = nil
				return
			}
			s.take(req)
		default:
			return
		}
	}
}

func (s *Session) take(req *ssh.Request) {
	switch req.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if ssh.Unmarshal(req.Payload, &m) == nil {
			s.status.Store(&exit{status: int(m.Status)})
		}
	case "exit-signal":
		var m struct {
			Signal      string
			Core        bool
			Words, Lang string
		}
		if ssh.Unmarshal(req.Payload, &m) == nil {
			s.status.Store(&exit{status: 128, signal: m.Signal, words: m.Words})
		}
	}
	if req.WantReply {
		req.Reply(false, nil)
	}
}
