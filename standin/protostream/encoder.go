// Package protostream reads and writes session recordings in the format of the
// real program (lib/events/stream.go of 13.0.0-dev): a recording is a row of
// parts; a part is a header of three big-endian 64-bit numbers (version 1, size
// of the body, size of the padding), a gzip body of records (32-bit length and
// a protobuf OneOf), and padding.
package protostream

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/gravitational/teleport/api/types/events"
)

const (
	version      = 1
	headerSize   = 24
	recordHeader = 4

	// MaxMessage is the largest event that fits (64 KiB); longer ones are trimmed.
	MaxMessage = 64 * 1024
	// AsyncPart is the compressed size at which a recorder on a host cuts a part.
	AsyncPart = 2 * MaxMessage
	// SyncPart is the compressed size at which the auth cuts one; shorter parts
	// but the last are padded to it (an S3 rule).
	SyncPart = 5 * 1024 * 1024

	// chunk is how much is gathered before it is compressed as a gzip member of
	// its own, so that no open stream holds a compressor.
	chunk = 16 * 1024
)

var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Encoder gathers events into parts. The zero value writes parts without
// padding. It is not safe for concurrent use and holds no goroutine.
type Encoder struct {
	// MinPart pads every part but the last to this size; 0: no padding.
	MinPart int

	raw    []byte
	packed bytes.Buffer
	last   int64
	count  int
}

// Append adds one event. An event over MaxMessage is trimmed if its kind can be,
// else refused.
func (e *Encoder) Append(event events.AuditEvent) error {
	if event.Size() > MaxMessage {
		trimmer, ok := event.(interface {
			TrimToMaxSize(int) events.AuditEvent
		})
		if !ok {
			return fmt.Errorf("%s event of %d bytes is over the limit of %d", event.GetType(), event.Size(), MaxMessage)
		}
		event = trimmer.TrimToMaxSize(MaxMessage)
	}
	record, err := events.ToOneOf(event)
	if err != nil {
		return fmt.Errorf("encode %s event: %w", event.GetType(), err)
	}
	return e.appendRecord(record, event.GetIndex())
}

func (e *Encoder) appendRecord(record *events.OneOf, index int64) error {
	size := record.Size()
	start := len(e.raw)
	e.raw = binary.BigEndian.AppendUint32(e.raw, uint32(size))
	e.raw = append(e.raw, make([]byte, size)...)
	if _, err := record.MarshalTo(e.raw[start+recordHeader:]); err != nil {
		e.raw = e.raw[:start]
		return fmt.Errorf("marshal event %d: %w", index, err)
	}
	e.last, e.count = index, e.count+1
	if len(e.raw) >= chunk {
		return e.compress()
	}
	return nil
}

func (e *Encoder) compress() error {
	if len(e.raw) == 0 {
		return nil
	}
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&e.packed)
	if _, err := w.Write(e.raw); err != nil {
		return err
	}
	e.raw = e.raw[:0]
	return w.Close()
}

// CompressedSize is how large the part is so far. Events that are not yet
// compressed do not count, as in the real program.
func (e *Encoder) CompressedSize() int { return e.packed.Len() }

// Pending is the number of events that the next Cut will hold.
func (e *Encoder) Pending() int { return e.count }

// LastIndex is the index of the event appended last.
func (e *Encoder) LastIndex() int64 { return e.last }

// Cut returns the part gathered so far, header and padding included, and starts
// the next; nil if there is nothing. The last part of a recording is not padded.
func (e *Encoder) Cut(last bool) []byte {
	if err := e.compress(); err != nil || e.packed.Len() == 0 {
		return nil // compressing into memory does not fail
	}
	padding := 0
	if !last {
		padding = max(0, e.MinPart-e.packed.Len()-headerSize)
	}
	part := make([]byte, headerSize, headerSize+e.packed.Len()+padding)
	binary.BigEndian.PutUint64(part, version)
	binary.BigEndian.PutUint64(part[8:], uint64(e.packed.Len()))
	binary.BigEndian.PutUint64(part[16:], uint64(padding))
	part = append(part, e.packed.Bytes()...)
	part = append(part, make([]byte, padding)...)
	e.packed, e.raw, e.count = bytes.Buffer{}, nil, 0
	return part
}
