package recorder

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/protostream"
)

// Options say how one session is recorded.
type Options struct {
	SessionID string
	Mode      string
	ServerID  string
	// Discard is a session that is recorded elsewhere: nothing is kept and nothing emitted.
	Discard bool
	// Strict sessions end when they can no longer be recorded; others go on unrecorded.
	Strict bool
	// Lost is called once when recording has become impossible, with the reason.
	Lost func(error)
}

// sink takes the numbered events of one session.
type sink interface {
	write(events.AuditEvent) error
	// complete finishes the recording so that it can be uploaded.
	complete(context.Context) error
}

// Recorder records one session. Its methods may be called from several goroutines.
type Recorder struct {
	host *Host
	opts Options

	mu    sync.Mutex
	sink  sink
	index int64
	print printState
	over  bool
	lost  sync.Once
}

// printState carries over what a print event says about those before it.
type printState struct {
	any           bool
	time          time.Time
	offset, delay int64
	chunk, length int64
}

// Open begins a recording. In strict mode it fails where recording is impossible; otherwise such a session goes on unrecorded.
func (h *Host) Open(ctx context.Context, opts Options) (*Recorder, error) {
	r := &Recorder{host: h, opts: opts}
	sink, err := h.newSink(ctx, r)
	if err != nil {
		if opts.Strict {
			return nil, fmt.Errorf("initialize session recording: %w", err)
		}
		h.cfg.Log.Warn("recording disabled for this session", "session", opts.SessionID, "err", err)
		sink = eventsOnly{h.cfg.Emitter}
	}
	r.sink = sink
	return r, nil
}

func (h *Host) newSink(ctx context.Context, r *Recorder) (sink, error) {
	sid := r.opts.SessionID
	if r.opts.Discard {
		return nothing{}, nil
	}
	var s sink
	if Sync(r.opts.Mode) {
		if _, ok := h.cfg.Faults.Active(faults.LoseRecording, sid); ok {
			return &lostSync{eventsOnly: eventsOnly{h.cfg.Emitter}, faults: h.cfg.Faults, session: sid}, nil
		}
		stream, err := h.openSync(ctx, sid, r.fail)
		if err != nil {
			return nil, err
		}
		s = stream
	} else {
		file, err := h.openFile(sid)
		if err != nil {
			return nil, err
		}
		s = &tee{sink: file, emitter: h.cfg.Emitter}
	}
	return plant(s, h.cfg.Faults, sid), nil
}

// Emit records an event of the session and, where the recorder does so, sends it to the audit log.
func (r *Recorder) Emit(event events.AuditEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emit(event)
}

func (r *Recorder) emit(event events.AuditEvent) error {
	if r.over {
		return fmt.Errorf("recording of session %s is over", r.opts.SessionID)
	}
	complete(event, r.host.cfg.Auth.Identity().Cluster)
	event.SetIndex(r.index)
	r.index++
	return r.sink.write(event)
}

// Write records output of the session. It fails only for strict sessions that can no longer be recorded.
func (r *Recorder) Write(p []byte) (int, error) {
	if r.opts.Mode == ModeOff || r.opts.Discard {
		return len(p), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := p; len(rest) > 0; {
		n := min(len(rest), protostream.MaxMessage-256)
		if err := r.emit(r.print.next(rest[:n])); err != nil && r.opts.Strict {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// next makes the print event for output that follows on what was printed before. The bytes are copied.
func (s *printState) next(p []byte) *events.SessionPrint {
	now := time.Now().UTC().Round(time.Millisecond)
	e := &events.SessionPrint{
		Metadata: events.Metadata{Type: TypePrint, Time: now},
		Data:     append([]byte(nil), p...), Bytes: int64(len(p)),
	}
	if s.any {
		s.offset += s.length
		s.delay += now.Sub(s.time).Milliseconds()
		s.chunk++
	}
	s.any, s.time, s.length = true, now, int64(len(p))
	e.Offset, e.DelayMilliseconds, e.ChunkIndex = s.offset, s.delay, s.chunk
	return e
}

// Complete ends the recording; it is uploaded soon after. A second call does nothing.
func (r *Recorder) Complete(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil
	}
	r.over = true
	return r.sink.complete(ctx)
}

// fail is told by a sink that it is broken for good, after which the sink refuses events at once.
func (r *Recorder) fail(err error) {
	r.host.cfg.Log.Warn("session can no longer be recorded", "session", r.opts.SessionID, "strict", r.opts.Strict, "err", err)
	r.lost.Do(func() {
		if !r.opts.Strict {
			r.mu.Lock()
			r.sink = eventsOnly{r.host.cfg.Emitter}
			r.mu.Unlock()
		}
		if r.opts.Lost != nil {
			r.opts.Lost(err)
		}
	})
}

// nothing is the sink of sessions recorded elsewhere.
type nothing struct{}

func (nothing) write(events.AuditEvent) error  { return nil }
func (nothing) complete(context.Context) error { return nil }

// eventsOnly keeps the audit log going for a session that is not recorded.
type eventsOnly struct{ emitter *Emitter }

func (s eventsOnly) write(event events.AuditEvent) error {
	if audited(event) {
		s.emitter.Emit(event)
	}
	return nil
}

func (eventsOnly) complete(context.Context) error { return nil }

// tee sends what belongs into the audit log there, beside the recording.
type tee struct {
	sink
	emitter *Emitter
}

func (t *tee) write(event events.AuditEvent) error {
	err := t.sink.write(event)
	if audited(event) {
		t.emitter.Emit(event)
	}
	return err
}

// audited reports whether an event goes into the audit log and not only into the recording.
func audited(event events.AuditEvent) bool {
	switch event.GetType() {
	case TypePrint, TypeResize, "":
		return false
	}
	return true
}
