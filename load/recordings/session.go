// Package recordings says after a run what became of the recording of each session: what the server acknowledged
// is compared with the audit log and with the recording as it is played back.
package recordings

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/audit"
)

// Session is a session of which a recording is expected, as the ledger leaves it.
type Session struct {
	ID string
	// ServerSession is the id that the session itself told. It is empty for kube-exec, which is found again in the
	// log by its token, and another one than the log's where a proxy records.
	ServerSession string
	Type          string // ssh or kube-exec
	User          string
	Local         string        // our end of the connection, by which the log knows sessions that a proxy records
	Open, End     time.Duration // since the run's start
	Proxy         history.PodRef
	Agent         history.Agent
	Lines         history.Lines
	Class         history.Class
}

// Source is where audit events and recordings come from; *audit.Log is one.
type Source interface {
	Events(ctx context.Context, from, to time.Time, types ...string) iter.Seq2[audit.Event, error]
	Play(ctx context.Context, session string) (audit.Playback, error)
}

// Recorder takes events and knows the run's clock; *history.Recorder is one.
type Recorder interface {
	Record(history.Event)
	Now() time.Duration
	Since(time.Time) time.Duration
}

// Holder is what is known about the pod that held recordings before their upload.
type Holder struct {
	Gone bool // the pod object is gone, or its phase is final
	// Restarted says that a container of it ended since the session opened: an upload was abandoned, and only the
	// upload completer can still finish it.
	Restarted bool
	Storage   string // emptyDir, pvc, hostPath; empty: not known
}

// Options of a check. Log, History and Mode are required.
type Options struct {
	Log     Source
	History Recorder
	Mode    string // node, node-sync, proxy, proxy-sync
	// Holder tells what became of a pod since a moment of the run; nil: all live.
	Holder func(pod history.PodRef, since time.Duration) Holder
	// Auths tells what became of each auth pod that lived at some time between two moments of the run: they hold the
	// recordings of the sync modes, and those of kube-exec; nil: all live.
	Auths func(from, until time.Duration) []Holder
	// Settle is how long after the last session's end a recording may take.
	Settle time.Duration
	// Late is from when on a complete recording is called late.
	Late time.Duration
	// Completer is how long an abandoned upload may take: 37 minutes with Teleport's own timers (30 min until the
	// tracker expires, 5 min poll, 2 min wait; lib/events/complete.go), 0 means that. Until then it is pending.
	Completer time.Duration
	// Uploader is the longest that an agent's or proxy's uploader waits between two tries after failures: 500 s with
	// Teleport's own scan every 5 s, 100 times that (lib/events/filesessions/fileasync.go), 0 means that. Until then what an
	// auth's end may have kept from being uploaded is pending.
	Uploader time.Duration
	Sample   float64       // share of the recordings to play back, 0..1; 0 means all
	Seed     uint64        // of the sample
	Every    time.Duration // between two looks at the audit log; 0: 2 s
	Parallel int           // recordings played back at once; 0: 4
	Logger   *slog.Logger
}

// Summary counts what was found, by class.
type Summary struct {
	Expected int
	Classes  map[history.RecordingClass]int
	Played   int // recordings read back
	// Blind is the last error of reading the audit log or a recording, if what it left open was never read.
	Blind error
}
