package protostream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/types/events"
	"pgregory.net/rapid"
)

func printEvent(i int64, data []byte) *events.SessionPrint {
	return &events.SessionPrint{
		Metadata: events.Metadata{Type: "print", Index: i, Time: time.Unix(i, 0).UTC()},
		Data:     data, Bytes: int64(len(data)),
	}
}

func readAll(t interface{ Fatal(...any) }, b []byte) []events.AuditEvent {
	d, out := NewDecoder(bytes.NewReader(b)), []events.AuditEvent(nil)
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

func TestWhatGoesInComesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		enc := Encoder{MinPart: rapid.SampledFrom([]int{0, 4096}).Draw(t, "minPart")}
		var want []events.AuditEvent
		var file []byte
		for i := range rapid.IntRange(0, 60).Draw(t, "events") {
			e := printEvent(int64(i), rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "data"))
			if err := enc.Append(e); err != nil {
				t.Fatal(err)
			}
			want = append(want, e)
			if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
				file = append(file, enc.Cut(false)...)
			}
		}
		file = append(file, enc.Cut(true)...)
		if diff := cmp.Diff(want, readAll(t, file)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPartsAreAtLeastAsLargeAsAsked(t *testing.T) {
	enc := Encoder{MinPart: 10_000}
	if err := enc.Append(printEvent(1, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if got := len(enc.Cut(false)); got != 10_000 {
		t.Fatalf("part is %d bytes long, want 10000", got)
	}
	if enc.Cut(true) != nil {
		t.Fatal("an empty encoder cut a part")
	}
}

func TestCutOffRecordingIsNotAnEnd(t *testing.T) {
	var enc Encoder
	for i := range 50 {
		if err := enc.Append(printEvent(int64(i), bytes.Repeat([]byte{byte(i)}, 900))); err != nil {
			t.Fatal(err)
		}
	}
	part := enc.Cut(true)
	for _, n := range []int{5, headerSize, headerSize + 3, len(part) / 2, len(part) - 1} {
		d := NewDecoder(bytes.NewReader(part[:n]))
		var err error
		for err == nil {
			_, err = d.Next()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d of %d: got %v, want an unexpected EOF", n, len(part), err)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	var enc Encoder
	_ = enc.Append(printEvent(0, []byte("hello")))
	f.Add(enc.Cut(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(bytes.NewReader(b))
		for range 1000 {
			if _, err := d.Next(); err != nil {
				return
			}
		}
	})
}
