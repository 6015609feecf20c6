package load

import (
	"context"
	"io"
	"time"

	"shakedown.dev/shakedown/history"
)

// link is one open session as the engine sees it, whatever its protocol. One goroutine reads, another writes.
type link interface {
	io.ReadWriteCloser
	// Ping returns when the far side gave any sign of life.
	Ping(ctx context.Context) error
	// CloseWrite ends the input.
	CloseWrite() error
	// Ended tells how the session ended; it is called after Read returned an error, by the same goroutine.
	Ended(ctx context.Context) ended
	// Silent says in words which part of the path does not answer, after a keep-alive was lost.
	Silent(ctx context.Context) string
	Phases() []history.PhaseTime
	Addresses() (local, remote string)
	// ServerSession is the session's id in the audit log, if the protocol told it.
	ServerSession() string
}

// ended is how a session ended, as far as its protocol tells.
type ended struct {
	Exited bool // the far side said how its program ended
	Status int
	Signal string // without SIG; then Status is 128
	Cut    history.Cut
	Reason string // in the words of the server or of the error
}

// route is where a session goes.
type route struct {
	User  int
	Proxy Proxy
	Node  history.Agent // of ssh sessions
	Pod   KubePod       // of kube-exec and kube-port-forward sessions
	// Namespace is where kube-watch and kube-api sessions look; empty: default.
	Namespace string
}

// launch says what the far side is to run.
type launch struct {
	Terminal bool
	Command  string        // for the shell; empty: the login shell
	Length   time.Duration // how long it may last at most; 0: not known
	SPDY     bool          // of kube-exec: the older protocol; else WebSocket
	On       *bundle       // the connection to share; nil: it gets one of its own
}

// opener opens the sessions of one kind. Every error is a *openError. ctx bounds the opening, not the session.
type opener interface {
	open(ctx context.Context, to route, what launch) (link, error)
}

// openError is a session that could not be opened.
type openError struct {
	Phase  history.Phase
	Phases []history.PhaseTime
	Cut    history.Cut
	Err    error
}

func (e *openError) Error() string { return e.Err.Error() }
func (e *openError) Unwrap() error { return e.Err }
