package history

import (
	"fmt"
	"io"
)

// Write makes a complete history of events, with Seq, Kind and the closing
// record filled in: for tests and for tools that change old histories.
func Write(w io.Writer, events []Event) error {
	text, err := encodeAll(events)
	if err != nil {
		return err
	}
	enc := newEncoder()
	defer enc.Close()
	_, err = w.Write(enc.EncodeAll(text, nil))
	return err
}

// WriteText is Write as plain JSON lines, which a Reader takes as well.
func WriteText(w io.Writer, events []Event) error {
	text, err := encodeAll(events)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func encodeAll(events []Event) ([]byte, error) {
	l, byKind, lost := newLines(), map[Kind]uint64{}, map[Kind]uint64{}
	var last Event
	add := func(e Event) error {
		e.Seq, e.Kind = last.Seq+1, e.Data.Kind()
		if err := l.add(e); err != nil {
			return fmt.Errorf("event %d (%s): %w", e.Seq, e.Kind, err)
		}
		last = e
		return nil
	}
	for _, e := range events {
		if _, closing := e.Data.(Closed); closing {
			continue
		}
		if err := add(e); err != nil {
			return nil, err
		}
		byKind[last.Kind]++
		if o, ok := e.Data.(Overflow); ok {
			for k, n := range o.Lost {
				lost[k] += n
			}
		}
	}
	closing := Closed{Events: last.Seq, ByKind: byKind, Lost: lost}
	err := add(Event{At: last.At, Wall: last.Wall, Data: closing})
	return l.buf.Bytes(), err
}
