package history

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
)

// Reader reads a history from its begin to its end, or to where it was cut or
// damaged. It is for one goroutine and one pass.
type Reader struct {
	in     io.Reader
	status Status
	byKind map[Kind]uint64
	closed bool
}

// NewReader reads from r: zstd frames as a Recorder writes them, or plain JSON lines.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: r, byKind: map[Kind]uint64{}, status: Status{Lost: map[Kind]uint64{}, Unknown: map[Kind]uint64{}}}
}

// ReadFile reads a whole history into memory. The error is about the file as
// such (not there, not readable); a cut or damaged one gives the events before
// that and the Status says so.
func ReadFile(path string) ([]Event, Status, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Status{}, fmt.Errorf("open history: %w", err)
	}
	defer f.Close()
	r := NewReader(f)
	events := slices.Collect(r.Events())
	return events, r.Status(), nil
}

// Status says how much there was; it is Unread until Events has been read to its end.
func (r *Reader) Status() Status { return r.status }

// Events gives the good events in the order they were written, which is nearly
// that of At. The closing record comes too. Frames are decoded on all cores.
func (r *Reader) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if r.status.State != Unread {
			return
		}
		stop := make(chan struct{})
		defer close(stop)
		for result := range r.parts(stop) {
			p := <-result
			for _, e := range p.events {
				if !r.accept(e, p.begin) || !yield(e) {
					return
				}
			}
			r.status.Offset = p.offset
			if p.err != nil {
				r.finish(p.err)
				return
			}
		}
	}
}

// parts decodes frames in parallel and gives the results in the order of the file.
func (r *Reader) parts(stop <-chan struct{}) <-chan chan part {
	queue := make(chan chan part, runtime.GOMAXPROCS(0))
	go func() {
		defer close(queue)
		dec := newDecoder()
		defer dec.Close()
		var decoding sync.WaitGroup
		defer decoding.Wait()
		src := newFrames(r.in)
		for {
			f, err := src.next()
			result := make(chan part, 1)
			if err != nil {
				result <- part{offset: f.offset, err: err}
			} else {
				decoding.Go(func() { result <- f.parse(dec) })
			}
			select {
			case queue <- result:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return queue
}

// accept checks what must hold between events.
func (r *Reader) accept(e Event, offset int64) bool {
	switch {
	case r.closed:
		r.damaged(offset, "events after the closing record")
		return false
	case e.Seq != r.status.Events+1:
		r.damaged(offset, fmt.Sprintf("event %d follows event %d", e.Seq, r.status.Events))
		return false
	}
	switch d := e.Data.(type) {
	case Other:
		r.status.Unknown[e.Kind]++
	case Overflow:
		for k, n := range d.Lost {
			r.status.Lost[k] += n
		}
	case Closed:
		r.closed = true
		if detail := r.disagree(d); detail != "" {
			r.damaged(offset, detail)
			return false
		}
	}
	r.byKind[e.Kind]++
	r.status.Events, r.status.Last = e.Seq, e.At
	return true
}

// disagree compares the closing record with what was read.
func (r *Reader) disagree(c Closed) string {
	if c.Events != r.status.Events {
		return fmt.Sprintf("the closing record counts %d events, there are %d", c.Events, r.status.Events)
	}
	if !maps.Equal(c.ByKind, r.byKind) {
		return "the closing record counts other kinds of events than there are"
	}
	if len(c.Lost) != len(r.status.Lost) || (len(c.Lost) > 0 && !maps.Equal(c.Lost, r.status.Lost)) {
		return "the closing record counts other lost events than were told"
	}
	return ""
}

func (r *Reader) damaged(offset int64, detail string) {
	r.status.State, r.status.Offset, r.status.Detail = Corrupt, offset, detail
}

func (r *Reader) finish(err error) {
	switch {
	case errors.Is(err, io.EOF) && r.closed:
		r.status.State = Complete
	case errors.Is(err, io.EOF):
		r.status.State, r.status.Detail = Truncated, "no closing record"
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.status.State, r.status.Detail = Truncated, "the file ends inside a record"
	default:
		r.status.State, r.status.Detail = Corrupt, err.Error()
	}
}
