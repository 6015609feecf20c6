package history

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func same(a, b Event) bool { return reflect.DeepEqual(a, b) }

// manyFrames is a history of several small frames, as a slow run leaves it.
func manyFrames(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	r := NewRecorder(&out, Options{Start: wall})
	all := samples()
	for _, e := range append(all[1:5:5], all[len(all)-2:]...) {
		e.At, e.Due = 0, 0
		r.Record(e)
		if err := r.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestACutHistoryIsTruncatedAndKeepsWhatCameBefore(t *testing.T) {
	raw := manyFrames(t)
	all, status := read(raw)
	if !strings.HasPrefix(status.String(), "complete, 7 events, but the recorder could not keep up and left out 2 of probe") {
		t.Fatalf("whole file: %v", status)
	}
	before := 0
	for cut := range raw {
		events, status := read(raw[:cut])
		if status.State != Truncated || status.Whole() {
			t.Fatalf("cut at %d: %v", cut, status)
		}
		if len(events) < before || !slices.EqualFunc(all[:len(events)], events, same) {
			t.Fatalf("cut at %d: other events than were written", cut)
		}
		before = len(events)
	}
	if before < len(all)-1 {
		t.Errorf("a cut in the last frame kept only %d of %d events", before, len(all))
	}
}

func TestADamagedByteNeverPassesForTheTruth(t *testing.T) {
	raw := manyFrames(t)
	all, _ := read(raw)
	for at := range raw {
		bad := bytes.Clone(raw)
		bad[at] ^= 0x41
		events, status := read(bad)
		if status.State == Complete && len(events) != len(all) {
			t.Errorf("byte %d changed: said complete with other events", at)
		}
		if len(events) > len(all) || !slices.EqualFunc(all[:len(events)], events, same) {
			t.Errorf("byte %d changed: gave other events than were written", at)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, samples()[:3]); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	join := func(l ...string) string { return strings.Join(l, "") }
	for _, row := range []struct{ name, text, want string }{
		{"an empty file was cut before its first event", "", "truncated after event 0 (0s into the run, byte 0 of the file): no closing record"},
		{"a line left out is a hole in the numbers", join(lines[0], lines[2], lines[3]), "corrupt after event 1 (0s into the run, byte 0 of the file): event 3 follows event 1"},
		{"a line twice too", join(lines[0], lines[0]), "event 1 follows event 1"},
		{"a closing record that counts other events", join(lines[0], strings.Replace(lines[3], `"seq":4`, `"seq":2`, 1)), "the closing record counts 3 events, there are 1"},
		{"a line after the closing record", join(lines[0], lines[1], lines[2], lines[3], strings.Replace(lines[2], `"seq":3`, `"seq":5`, 1)), "events after the closing record"},
		{"a line that is not JSON", join(lines[0], "hello\n", lines[1]), "invalid character 'h'"},
		{"a payload of another shape", join(lines[0], `{"seq":2,"kind":"entry","data":[]}`+"\n"), "payload of entry"},
		{"a last line without its end was being written", join(lines[0], lines[1][:40]), "truncated after event 1"},
		{"a file that is something else", "PK\x03\x04zipzipzipzip", "corrupt after event 0 (0s into the run, byte 0 of the file): not a zstd frame"},
	} {
		_, status := read([]byte(row.text))
		if !strings.Contains(status.String(), row.want) {
			t.Errorf("%s:\n got %s\nwant %s", row.name, status, row.want)
		}
	}
}

func TestReadFileSaysWhenThereIsNoFile(t *testing.T) {
	if _, _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAReaderThatStopsEarlyClaimsNothing(t *testing.T) {
	r := NewReader(bytes.NewReader(manyFrames(t)))
	for range r.Events() {
		break
	}
	if s := r.Status(); s.State != Unread || s.Whole() {
		t.Errorf("got %v", s)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(manyFrames(f))
	var text bytes.Buffer
	if err := WriteText(&text, samples()); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(`{"seq":1,"atNs":1,"wall":"2026-11-30T20:00:00Z","kind":"x","data":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, status := read(raw)
		if status.State == Unread {
			t.Error("read to the end, but says unread")
		}
		if uint64(len(events)) != status.Events {
			t.Errorf("gave %d events, counts %d", len(events), status.Events)
		}
		if status.State != Complete {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, events); err != nil {
			t.Fatal(err)
		}
		if second, s := read(again.Bytes()); s.State != Complete || len(second) != len(events) {
			t.Errorf("written again: %v", s)
		}
	})
}
