package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Limits of what a reader takes in, so that a damaged file cannot eat the memory.
const (
	maxFrame   = 64 << 20  // compressed bytes of one frame, or one line of text
	maxDecoded = 256 << 20 // of one frame
	textPart   = 512 << 10
)

var magic = []byte{0x28, 0xb5, 0x2f, 0xfd} // RFC 8878, section 3.1.1

// frame is a part of the file that can be decoded on its own.
type frame struct {
	offset int64 // where it begins in the file
	bytes  []byte
	text   bool // plain JSON lines, not compressed
}

// frames cuts a file into frames. The file may also be plain JSON lines, which
// is what people write by hand in tests.
type frames struct {
	in     *bufio.Reader
	offset int64
	text   bool
	begun  bool
}

func newFrames(r io.Reader) *frames { return &frames{in: bufio.NewReaderSize(r, 256<<10)} }

// next returns io.EOF after the last frame, io.ErrUnexpectedEOF if the file
// stops inside one.
func (f *frames) next() (frame, error) {
	if !f.begun {
		f.begun = true
		head, _ := f.in.Peek(1)
		f.text = len(head) == 1 && (head[0] == '{' || head[0] == '\n')
	}
	begin := f.offset
	read := f.compressed
	if f.text {
		read = f.plain
	}
	raw, err := read()
	f.offset += int64(len(raw))
	return frame{offset: begin, bytes: raw, text: f.text}, err
}

// plain returns whole lines, about textPart bytes of them.
func (f *frames) plain() ([]byte, error) {
	var part []byte
	for len(part) < textPart {
		line, err := f.in.ReadSlice('\n')
		part = append(part, line...)
		if errors.Is(err, bufio.ErrBufferFull) && len(part) < maxFrame {
			continue
		}
		if errors.Is(err, io.EOF) && len(part) > 0 {
			break
		}
		if err != nil {
			return part, err
		}
	}
	return part, nil
}

// compressed returns one zstd frame with its headers, as RFC 8878 lays it out:
// frame header, blocks of which the last is marked, checksum of 4 bytes.
func (f *frames) compressed() ([]byte, error) {
	head, err := f.in.Peek(zstd.HeaderMaxSize)
	if len(head) == 0 {
		return nil, io.EOF
	}
	if len(head) < len(magic) || !bytes.Equal(head[:len(magic)], magic) {
		return nil, f.noFrame(head, err)
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		if len(head) < zstd.HeaderMaxSize {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("frame header: %w", err)
	}
	raw, err := f.take(nil, h.HeaderSize)
	for last := false; !last && err == nil; {
		raw, last, err = f.block(raw)
	}
	if err == nil && h.HasCheckSum {
		raw, err = f.take(raw, 4)
	}
	return raw, err
}

func (f *frames) noFrame(head []byte, err error) error {
	if len(head) < len(magic) && bytes.HasPrefix(magic, head) {
		return io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errors.New("not a zstd frame")
}

// block appends one block: a header of 3 bytes (last, type, size), then its
// content, which for type 1 (one byte repeated) is a single byte.
func (f *frames) block(raw []byte) ([]byte, bool, error) {
	raw, err := f.take(raw, 3)
	if err != nil {
		return raw, false, err
	}
	b := raw[len(raw)-3:]
	word := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	size := int(word >> 3)
	if word>>1&3 == 1 {
		size = 1
	}
	raw, err = f.take(raw, size)
	return raw, word&1 == 1, err
}

func (f *frames) take(raw []byte, n int) ([]byte, error) {
	if len(raw)+n > maxFrame {
		return raw, fmt.Errorf("frame of more than %d bytes", maxFrame)
	}
	at := len(raw)
	raw = append(raw, make([]byte, n)...)
	got, err := io.ReadFull(f.in, raw[at:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return raw[:at+got], err
}
