package history

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink is a file that can be slow or full, and remembers what was synced.
type sink struct {
	mu      sync.Mutex
	written bytes.Buffer
	synced  int
	block   chan struct{}
	err     error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.block != nil {
		<-s.block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.written.Write(p)
}

func (s *sink) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = s.written.Len()
	return nil
}

func (s *sink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.written.Bytes())
}

func TestACrashLosesAtMostASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := NewRecorder(s, Options{})
		for range 10 {
			r.Record(Event{Data: Probe{}})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		events, status := read(s.bytes()) // what a crash now would leave
		if len(events) != 10 || status.State != Truncated {
			t.Errorf("%d events on disk: %v", len(events), status)
		}
		r.Close()
	})
}

func TestPhaseChangesAreOnTheDiskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := NewRecorder(s, Options{})
		r.Record(Event{Data: Probe{}})
		r.Record(Event{Data: Entry{Name: "kill", State: EntryStarted}})
		synctest.Wait() // no time passes
		if events, _ := read(s.bytes()[:s.synced]); len(events) != 2 {
			t.Errorf("%d events synced, want 2", len(events))
		}
		r.Close()
	})
}

func TestWhatCannotBeWrittenInTimeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{block: make(chan struct{})}
		r := NewRecorder(s, Options{Buffer: 4, Patience: 100 * time.Millisecond})
		r.Record(Event{Data: RunStart{}}) // its sync hangs in the sink
		synctest.Wait()
		for range 10 {
			r.Record(Event{Data: Probe{}})
		}
		if r.Lost() != 6 {
			t.Errorf("lost %d, want 6: four fit the buffer", r.Lost())
		}
		close(s.block)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		events, status := read(s.bytes())
		if status.State != Complete || status.Whole() || status.Lost[KindProbe] != 6 {
			t.Errorf("%v", status)
		}
		if len(events) != 1+4+1+1 {
			t.Errorf("%d events, want start, 4 probes, overflow, closed", len(events))
		}
	})
}

func TestTimesComeFromTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		start := time.Now()
		r := NewRecorder(&out, Options{Start: start})
		time.Sleep(3 * time.Second)
		r.Record(Event{Data: Probe{}})
		r.Record(Event{At: time.Second, Data: Probe{}}) // told late
		r.Close()
		events, _ := read(out.Bytes())
		for i, at := range []time.Duration{3 * time.Second, time.Second} {
			if e := events[i]; e.At != at || !e.Wall.Equal(start.Add(at)) {
				t.Errorf("event %d: at %v, wall %v after the start", i, e.At, e.Wall.Sub(start))
			}
		}
	})
}

func TestAFullDiskIsAnError(t *testing.T) {
	full := errors.New("no space left")
	r := NewRecorder(&sink{err: full}, Options{})
	r.Record(Event{Data: Probe{}})
	if err := r.Sync(); !errors.Is(err, full) {
		t.Errorf("sync: %v", err)
	}
	if err := r.Close(); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
	r.Record(Event{Data: Probe{}})
	if r.Lost() != 1 {
		t.Errorf("an event after the close is lost: counted %d", r.Lost())
	}
	if err := r.Sync(); err == nil {
		t.Error("a sync after the close must not claim anything")
	}
}

func TestAPayloadThatCannotBeJSONIsCounted(t *testing.T) {
	var out bytes.Buffer
	r := NewRecorder(&out, Options{})
	r.Record(Event{Data: Generator{CPU: math.NaN()}})
	r.Record(Event{Data: Generator{CPU: 1}})
	r.Close()
	events, status := read(out.Bytes())
	if status.State != Complete || status.Lost[KindGenerator] != 1 || len(events) != 3 {
		t.Errorf("%v, %d events", status, len(events))
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl.zst")
	var tapped int
	r, err := Create(path, Options{Tap: func(Event) { tapped++ }})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				r.Record(Event{Subject: "s", Data: Session{ID: "terminals/1", Class: Clean}})
			}
		})
	}
	all.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	events, status, err := ReadFile(path)
	if err != nil || !status.Whole() || len(events) != 40001 || tapped != 40001 {
		t.Errorf("%v, %v, %d events, %d tapped", err, status, len(events), tapped)
	}
	if _, err := Create(path, Options{}); err == nil {
		t.Error("an existing history must not be overwritten")
	}
}
