package load

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// behaviour is a row of the table of what sessions do.
type behaviour struct {
	name     string
	kinds    []string
	terminal bool // on a terminal, which Teleport records; else a program or a protocol without one
	shell    bool // the far side stays a shell; else it gives back each line
	many     bool // several share one connection
	buffer   int  // for what comes, in bytes; 0: 512
	// script makes what it does once open; nil: nothing, but for keep-alives.
	script func(scenarios.Drawn) script
}

// script acts while a session is open. All methods are called under the session's lock; times are of the run.
type script interface {
	// begin is called when the session opens.
	begin(now time.Duration)
	// next is when it wants to act; never: not before something comes.
	next() time.Duration
	// act appends what is to be sent now.
	act(now time.Duration, buf []byte) []byte
	// output is everything that comes; tally is what came of the session's lines, p counted in.
	output(now time.Duration, p []byte, tally *lines.Tally)
	// owed is since when the far side owes an answer; 0: it owes none.
	owed() time.Duration
	// done says that the script ended by itself, before its length was over.
	done() bool
	// sent is how many lines were typed.
	sent() uint64
}

// What some scripts can do besides.
type (
	// inspector says what is wrong with what came, when the far side ended well; empty: nothing.
	inspector interface{ flaw() string }
	// speaker tells the far side's last words.
	speaker interface{ said() string }
	// slow says how long to wait before reading on.
	slow interface {
		pause(now time.Duration) time.Duration
	}
	// counter says how many calls were answered, or changes came.
	counter interface{ answers() uint64 }
)

// never is a moment that does not come.
const never = time.Duration(1<<63 - 1)

// behaviours is the table. What a scenario may say and is not here is refused by Supports.
func behaviours() []behaviour {
	terminals := []string{scenarios.SSH, scenarios.KubeExec}
	return []behaviour{
		{name: "interactive", kinds: terminals, terminal: true, script: interactive},
		{name: "bulk", kinds: terminals, terminal: true, script: bulk},
		{name: "idle", kinds: terminals, terminal: true},
		{name: "idle", kinds: []string{scenarios.KubePortForward}},
		{name: "command", kinds: terminals},
		{name: "channels", kinds: []string{scenarios.SSH}, terminal: true, many: true, script: interactive},
		{name: "transfer", kinds: terminals, buffer: chunk, script: transfer},
		{name: "watch", kinds: []string{scenarios.KubeWatch}, buffer: 4 << 10, script: watching},
		{name: "calls", kinds: []string{scenarios.KubeAPI}, script: calls},
		{name: "scripted", kinds: terminals, terminal: true, shell: true, script: scripted},
	}
}

// behaviourOf finds a session's row.
func behaviourOf(s scenarios.Session) (behaviour, bool) {
	rows := behaviours()
	i := slices.IndexFunc(rows, func(b behaviour) bool { return b.name == s.Behaviour && slices.Contains(b.kinds, s.Kind) })
	if i < 0 {
		return behaviour{}, false
	}
	return rows[i], true
}

// Supports is nil if the engine can do such a session, or says why not: for scenarios.Options.Sessions.
func Supports(s scenarios.Session) error {
	_, ok := behaviourOf(s)
	switch {
	case !ok:
		return fmt.Errorf("the load engine cannot do behaviour %q in %s sessions", s.Behaviour, s.Kind)
	case s.Kind == scenarios.KubeExec && s.Behaviour == "command" && !s.Length.IsZero():
		return errors.New("kube-exec commands have no length: their input cannot be ended in the protocol that Teleport speaks")
	case (s.Kind == scenarios.KubeWatch || s.Kind == scenarios.KubeAPI) && s.Keepalive.Duration() < leastAPIKeepalive:
		return fmt.Errorf("%s sessions have a keepalive of at least %s: TCP asks for them, and not more often", s.Kind, leastAPIKeepalive)
	case s.Behaviour == "bulk" && s.Rate > maxBulkRate:
		return fmt.Errorf("a terminal takes at most %d MiB/s from the load engine: lower rate, or use more sessions", maxBulkRate>>20)
	}
	return nil
}

// leastAPIKeepalive: TCP's keep-alive is set in whole seconds, and its answer needs some time.
const leastAPIKeepalive = 2 * time.Second

// maxBulkRate is what one terminal is asked for at most, in bytes per second: a tick may not carry more than a
// terminal's input buffer several times over.
const maxBulkRate = 4 << 20

// What is typed into a login shell first: no echo, no prompt, and the session's id, which is the join key to audit
// log and recording. Then the far side stays a shell, or gives back each line once.
const (
	shell = "stty -echo; PS1=; echo " + markBegin + "$SSH_SESSION_ID" + markEnd
	plain = shell + "; exec cat"
)

// The mark that tells that the far side is ready, around the session's id.
const (
	markBegin = "@shakedown-session="
	markEnd   = "@"
)

// How the input is ended: by Control-D, which ends what a program reads from a terminal, or by leaving the shell.
const (
	endOfInput = "\x04"
	leave      = "exit 0\n"
)

// launching says how to begin a session, and what to type then.
func launching(s scenarios.Session, b behaviour, token string) (what launch, first string) {
	prepare := plain
	if b.shell {
		prepare = shell
	}
	switch {
	case s.Behaviour == "transfer":
		return launch{Command: transferCommand(s)}, ""
	case !b.terminal:
		return launch{Command: s.Command}, ""
	case s.Kind == scenarios.KubeExec && b.shell:
		return launch{Terminal: true, Command: ": " + token + "; exec sh"}, prepare + "\n"
	case s.Kind == scenarios.KubeExec:
		// The token makes the session known again in the audit log, which has the command: Kubernetes tells no id.
		return launch{Terminal: true, Command: ": " + token + "; " + prepare}, ""
	}
	return launch{Terminal: true}, prepare + "\n"
}

// ending is what to type when the script is over.
func (b behaviour) ending() string {
	if b.shell {
		return leave
	}
	return endOfInput
}

// Why a session was refused before it was tried.
var (
	errNoProxy = errors.New("no proxy pod is ready behind the Service")
	errNoAgent = errors.New(history.NoAgent)
	errNoPod   = errors.New("there is no container to run commands in")
)
