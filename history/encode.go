package history

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// lines turns events into JSON lines. The head is written by hand: it is the
// same for every event and costs more through reflection than the payloads do.
type lines struct {
	buf     bytes.Buffer
	payload *json.Encoder
	scratch []byte
}

func newLines() *lines {
	l := &lines{}
	l.payload = json.NewEncoder(&l.buf)
	l.payload.SetEscapeHTML(false)
	return l
}

// add appends one line; after an error nothing of it is left.
func (l *lines) add(e Event) error {
	mark := l.buf.Len()
	l.buf.Write(l.head(e))
	if err := l.payload.Encode(e.Data); err != nil {
		l.buf.Truncate(mark)
		return err
	}
	l.buf.Truncate(l.buf.Len() - 1) // Encode's own newline
	l.buf.WriteString("}\n")
	return nil
}

func (l *lines) head(e Event) []byte {
	b := append(l.scratch[:0], `{"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	if e.Due != 0 {
		b = strconv.AppendInt(append(b, `,"dueNs":`...), int64(e.Due), 10)
	}
	b = strconv.AppendInt(append(b, `,"atNs":`...), int64(e.At), 10)
	b = append(b, `,"wall":"`...)
	b = e.Wall.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","kind":`...)
	b = appendString(b, string(e.Data.Kind()))
	if e.Subject != "" {
		b = appendString(append(b, `,"subject":`...), e.Subject)
	}
	if e.Outcome != "" {
		b = appendString(append(b, `,"outcome":`...), string(e.Outcome))
	}
	b = append(b, `,"data":`...)
	l.scratch = b
	return b
}

// appendString quotes s as JSON; plain ASCII, which nearly all subjects are, is copied.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			quoted, _ := json.Marshal(s) // a string cannot fail to encode
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
