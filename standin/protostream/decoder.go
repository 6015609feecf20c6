package protostream

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gravitational/teleport/api/types/events"
)

// Decoder reads the events of a recording, part by part.
type Decoder struct {
	src     *bufio.Reader
	body    *io.LimitedReader
	gzip    *gzip.Reader
	padding int64
	buf     []byte
}

// NewDecoder reads a recording from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{src: bufio.NewReaderSize(r, 16*1024)} }

// Next returns the next event, or io.EOF after the last. A recording that was
// cut off inside a part gives io.ErrUnexpectedEOF.
func (d *Decoder) Next() (events.AuditEvent, error) {
	for {
		if d.gzip == nil {
			if err := d.openPart(); err != nil {
				return nil, err
			}
		}
		event, err := d.record()
		if !errors.Is(err, io.EOF) {
			return event, err
		}
		if err := d.closePart(); err != nil {
			return nil, err
		}
	}
}

func (d *Decoder) openPart() error {
	var header [headerSize]byte
	if _, err := io.ReadFull(d.src, header[:]); err != nil {
		return err // io.EOF between parts is the end
	}
	if v := binary.BigEndian.Uint64(header[:]); v != version {
		return fmt.Errorf("recording part has version %d, only %d is known", v, version)
	}
	d.padding = int64(binary.BigEndian.Uint64(header[16:]))
	d.body = &io.LimitedReader{R: d.src, N: int64(binary.BigEndian.Uint64(header[8:]))}
	zr, err := gzip.NewReader(bufio.NewReader(d.body))
	if err != nil {
		return unexpected(fmt.Errorf("open recording part: %w", err))
	}
	d.gzip = zr
	return nil
}

func (d *Decoder) closePart() error {
	d.gzip = nil
	if _, err := io.Copy(io.Discard, d.body); err != nil {
		return err
	}
	if d.body.N > 0 {
		return io.ErrUnexpectedEOF
	}
	_, err := io.CopyN(io.Discard, d.src, d.padding)
	return unexpected(err)
}

func (d *Decoder) record() (events.AuditEvent, error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(d.gzip, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size == 0 || size > 2*MaxMessage {
		return nil, fmt.Errorf("recording has a record of %d bytes, the limit is %d", size, 2*MaxMessage)
	}
	if cap(d.buf) < int(size) {
		d.buf = make([]byte, size)
	}
	if _, err := io.ReadFull(d.gzip, d.buf[:size]); err != nil {
		return nil, unexpected(err)
	}
	var oneof events.OneOf
	if err := oneof.Unmarshal(d.buf[:size]); err != nil {
		return nil, fmt.Errorf("decode recorded event: %w", err)
	}
	return events.FromOneOf(oneof)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
