package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options of a Recorder; the zero value is right for a run.
type Options struct {
	// Start is the moment that times count from; the zero value is now. It must
	// carry a monotonic reading, as time.Now gives it.
	Start time.Time
	// Flush is the longest an event waits in memory; 0 is 500 ms.
	Flush time.Duration
	// Patience is how long Record waits when the writer cannot keep up, before
	// it counts the event as lost; 0 is 1 s.
	Patience time.Duration
	// Buffer is how many events wait for the writer at most; 0 is 16384.
	Buffer int
	// Tap, if set, gets every event in the order of the file, before it is
	// written, on the writer's goroutine: it must be quick and must not Record.
	Tap func(Event)
}

func (o Options) withDefaults() Options {
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	if o.Flush == 0 {
		o.Flush = 500 * time.Millisecond
	}
	if o.Patience == 0 {
		o.Patience = time.Second
	}
	if o.Buffer == 0 {
		o.Buffer = 16384
	}
	return o
}

// Recorder appends events to a history. All methods may be called from many
// goroutines at once.
type Recorder struct {
	opts  Options
	in    chan request
	done  chan struct{}
	clock time.Time

	gate   sync.RWMutex // held for reading while sending on in
	closed bool

	lostMu sync.Mutex
	lost   map[Kind]uint64 // not yet told by an Overflow
	nLost  atomic.Uint64

	failure atomic.Pointer[error]
}

// request is an event to write, or a caller that waits for a sync.
type request struct {
	event  Event
	synced chan error
}

// Create makes a new history file; it fails if there is one.
func Create(path string, opts Options) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return NewRecorder(f, opts), nil
}

// NewRecorder writes to w until Close, which also closes w if it is an
// io.Closer. A w with Sync() error is synced at every phase change.
func NewRecorder(w io.Writer, opts Options) *Recorder {
	opts = opts.withDefaults()
	r := &Recorder{
		opts:  opts,
		clock: opts.Start,
		in:    make(chan request, opts.Buffer),
		done:  make(chan struct{}),
		lost:  map[Kind]uint64{},
	}
	go newWriter(r, w).run()
	return r
}

// Now is the time since the run's start, as it stands in Event.At.
func (r *Recorder) Now() time.Duration { return time.Since(r.clock) }

// Since converts a moment of this process to the history's time.
func (r *Recorder) Since(t time.Time) time.Duration { return t.Sub(r.clock) }

// Record hands over one event. Seq, Wall and Kind are filled in, At too where
// it is 0. When the writer cannot keep up it waits, at most Options.Patience;
// an event that is left out then is counted, and the history says so.
func (r *Recorder) Record(e Event) {
	now := time.Now()
	e.Kind, e.Wall = e.Data.Kind(), now.Round(0).UTC()
	if e.At == 0 {
		e.At = now.Sub(r.clock)
	} else {
		e.Wall = e.Wall.Add(e.At - now.Sub(r.clock))
	}
	r.gate.RLock()
	defer r.gate.RUnlock()
	if r.closed || !r.send(request{event: e}) {
		r.lose(e.Kind)
	}
}

func (r *Recorder) send(q request) bool {
	select {
	case r.in <- q:
		return true
	default:
	}
	patience := time.NewTimer(r.opts.Patience)
	defer patience.Stop()
	select {
	case r.in <- q:
		return true
	case <-patience.C:
		return false
	}
}

func (r *Recorder) lose(k Kind) {
	r.nLost.Add(1)
	r.lostMu.Lock()
	defer r.lostMu.Unlock()
	r.lost[k]++
}

func (r *Recorder) takeLost() map[Kind]uint64 {
	r.lostMu.Lock()
	defer r.lostMu.Unlock()
	if len(r.lost) == 0 {
		return nil
	}
	lost := r.lost
	r.lost = map[Kind]uint64{}
	return lost
}

// Lost counts the events that were left out so far; more than 0 makes a run inconclusive.
func (r *Recorder) Lost() uint64 { return r.nLost.Load() }

// Err is the first error of writing, such as a full disk; nothing is written after it.
func (r *Recorder) Err() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (r *Recorder) fail(err error) {
	if err != nil {
		r.failure.CompareAndSwap(nil, &err)
	}
}

// Sync returns when everything recorded before it is on the disk.
func (r *Recorder) Sync() error {
	synced := make(chan error, 1)
	r.gate.RLock()
	if r.closed {
		r.gate.RUnlock()
		return errors.Join(os.ErrClosed, r.Err())
	}
	r.in <- request{synced: synced}
	r.gate.RUnlock()
	return <-synced
}

// Close writes what is left and the closing record, and syncs. It returns the
// first error of the whole recording. Further calls return the same.
func (r *Recorder) Close() error {
	r.gate.Lock()
	first := !r.closed
	r.closed = true
	r.gate.Unlock()
	if first {
		close(r.in)
	}
	<-r.done
	return r.Err()
}

// newEncoder makes the encoder for frames: fastest, one thread, with checksum.
func newEncoder() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true))
	if err != nil {
		panic("history: zstd options: " + err.Error()) // fixed options: cannot happen
	}
	return enc
}
