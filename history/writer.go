package history

import (
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// frameSize is how many bytes of JSON make a frame; less when time is up.
const frameSize = 512 << 10

// writer is the single goroutine behind a Recorder. Each frame is compressed
// as a whole and written by one call, so that a crash cuts between frames and
// every frame can be checked and decoded on its own.
type writer struct {
	r      *Recorder
	out    io.Writer
	lines  *lines
	enc    *zstd.Encoder
	frame  []byte
	seq    uint64
	byKind map[Kind]uint64
	lost   map[Kind]uint64
	dirty  bool // written, not synced
}

func newWriter(r *Recorder, out io.Writer) *writer {
	return &writer{
		r: r, out: out, lines: newLines(), enc: newEncoder(),
		byKind: map[Kind]uint64{}, lost: map[Kind]uint64{},
	}
}

func (w *writer) run() {
	defer close(w.r.done)
	tick := time.NewTicker(w.r.opts.Flush)
	defer tick.Stop()
	for {
		select {
		case q, open := <-w.r.in:
			if !open {
				w.close()
				return
			}
			w.take(q)
		case <-tick.C:
			w.tellLost()
			w.flush()
		}
	}
}

func (w *writer) take(q request) {
	if q.synced != nil {
		w.sync()
		q.synced <- w.r.Err()
		return
	}
	w.add(q.event)
	if w.lines.buf.Len() >= frameSize {
		w.tellLost()
		w.flush()
	}
	if mustSync(q.event) {
		w.sync()
	}
}

// mustSync picks the events after which the disk is waited for: those that say
// what the run was doing, few and dear.
func mustSync(e Event) bool {
	switch d := e.Data.(type) {
	case RunStart, RunEnd, Fault:
		return true
	case Entry:
		return d.State != EntryWaiting
	case Rollout:
		return d.Stage != RolloutProgress
	}
	return false
}

func (w *writer) add(e Event) {
	w.seq++
	e.Seq = w.seq
	if err := w.lines.add(e); err != nil { // NaN, or a payload that cannot be JSON
		w.seq--
		w.r.lose(e.Kind)
		return
	}
	w.byKind[e.Kind]++
	if o, ok := e.Data.(Overflow); ok {
		for k, n := range o.Lost {
			w.lost[k] += n
		}
	}
	if w.r.opts.Tap != nil {
		w.r.opts.Tap(e)
	}
}

// tellLost writes down what was left out since the last time.
func (w *writer) tellLost() {
	if lost := w.r.takeLost(); lost != nil {
		w.addOwn(Overflow{Lost: lost})
	}
}

func (w *writer) addOwn(p Payload) {
	now := time.Now()
	w.add(Event{At: now.Sub(w.r.clock), Wall: now.UTC(), Kind: p.Kind(), Data: p})
}

func (w *writer) flush() {
	if w.lines.buf.Len() == 0 {
		return
	}
	if w.r.Err() == nil {
		w.frame = w.enc.EncodeAll(w.lines.buf.Bytes(), w.frame[:0])
		_, err := w.out.Write(w.frame)
		w.r.fail(err)
		w.dirty = true
	}
	w.lines.buf.Reset()
}

func (w *writer) sync() {
	w.flush()
	if s, ok := w.out.(interface{ Sync() error }); ok && w.dirty && w.r.Err() == nil {
		w.r.fail(s.Sync())
	}
	w.dirty = false
}

func (w *writer) close() {
	w.tellLost()
	w.addOwn(Closed{Events: w.seq, ByKind: w.byKind, Lost: w.lost})
	w.sync()
	if c, ok := w.out.(io.Closer); ok {
		w.r.fail(c.Close())
	}
}
