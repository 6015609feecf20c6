// Package node is the SSH node of the stand-in, and the SSH server by which a proxy records sessions in the proxy recording modes.
//
// A session costs as few goroutines as golang.org/x/crypto/ssh allows: one more for the connection, one for the session's requests and one or two for the program in it. The program is the login's real shell, or with STANDIN_SHELL=echo a small shell of its own that answers without any process, for load.
package node

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"
)

// Exit is how a program ended.
type Exit struct {
	Status uint32
	Signal string // without SIG; "" if it was not killed by one
	Lost   bool   // the program's own connection broke: no exit is reported to the client
}

// PTY is a requested terminal.
type PTY struct {
	Term          string
	Width, Height uint32
	Modes         map[uint8]uint32
}

// Request says what a session is to run.
type Request struct {
	Login     string
	Command   string   // "" is the login shell
	Subsystem string   // set instead of Command
	PTY       *PTY     // nil: no terminal
	Env       []string // all of it, ClientEnv too
	ClientEnv []string // as the client asked
	SessionID string
	Conn      *Conn // the connection it comes over
}

// Program runs in a session. Run serves it with the session's streams until it is over and reports how it ended. Resize and Signal may be called meanwhile from another goroutine, and Kill ends it because the client is gone.
type Program interface {
	Run(in io.Reader, out, errs io.Writer) Exit
	Resize(width, height uint32)
	Signal(name string)
	Kill()
}

// Dialer is what a Runner may be besides: the way to ports forwarded by it. Without it they are dialled from this host.
type Dialer interface {
	DialPort(ctx context.Context, addr string) (io.ReadWriteCloser, error)
}

// Runner starts programs.
type Runner interface {
	Start(ctx context.Context, req Request) (Program, error)
}

// exitStatus and exitSignal are the payloads of the requests a session ends with (RFC 4254, 6.10).
type exitStatus struct{ Status uint32 }

type exitSignal struct {
	Signal     string
	CoreDumped bool
	Message    string
	Language   string
}

// send tells the client how the program ended.
func (e Exit) send(ch ssh.Channel) {
	if e.Lost {
		return
	}
	if e.Signal != "" {
		ch.SendRequest("exit-signal", false, ssh.Marshal(exitSignal{Signal: e.Signal}))
		return
	}
	ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{e.Status}))
}
