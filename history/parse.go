package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// part is one frame decoded: its events up to the first bad line.
type part struct {
	events []Event
	begin  int64 // where it begins in the file
	offset int64 // where reading it stopped
	err    error // io.EOF: the file ends here in order
}

func newDecoder() *zstd.Decoder {
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		panic("history: zstd options: " + err.Error()) // fixed options: cannot happen
	}
	return dec
}

// texts are buffers for decompressed frames.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// parse decodes a frame. A compressed frame with a wrong checksum gives no
// events at all: nobody knows which of them are true.
func (f frame) parse(dec *zstd.Decoder) part {
	text, offset := f.bytes, f.offset
	if !f.text {
		buf := texts.Get().(*[]byte) // no event keeps a part of it
		defer texts.Put(buf)
		var err error
		if text, err = dec.DecodeAll(f.bytes, (*buf)[:0]); err != nil {
			return part{begin: offset, offset: offset, err: fmt.Errorf("frame: %w", err)}
		}
		*buf = text
	}
	var seen names
	p := part{begin: offset, offset: offset, events: make([]Event, 0, bytes.Count(text, []byte{'\n'}))}
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if len(bytes.TrimSpace(line)) > 0 {
			e, err := parseLine(line, &seen)
			if err != nil && !whole && f.text {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				p.err = err
				return p
			}
			p.events = append(p.events, e)
		}
		if f.text {
			p.offset += int64(len(text) - len(rest))
		}
		text = rest
	}
	return p
}

// parseLine decodes one line. Lines of our own recorder have their keys in one
// order and are cut by hand; all others take the long way, to the same result.
func parseLine(line []byte, seen *names) (Event, error) {
	if e, data, ok := cutHead(line, seen); ok {
		payload, err := cutPayload(e.Kind, data, seen)
		if err == nil {
			e.Data = payload
			return e, nil
		}
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("line: %w", err)
	}
	if e.Data == nil {
		return Event{}, errors.New("line: not an event")
	}
	return e, nil
}
