package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/types/events"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/standin/state"
)

func logs(t interface {
	TempDir() string
	Fatal(...any)
	Cleanup(func())
}) map[string]Log {
	files, err := OpenFiles(t.TempDir(), "host")
	if err != nil {
		t.Fatal(err)
	}
	store, err := state.OpenLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close(); store.Close() })
	return map[string]Log{"files": files, "shared": NewShared(store)}
}

func event(kind string, at time.Time, sid string) events.AuditEvent {
	e := blank(kind)
	switch e := e.(type) {
	case *events.SessionStart:
		e.Metadata, e.SessionMetadata = events.Metadata{Type: kind, Code: SessionStartCode}, events.SessionMetadata{SessionID: sid}
	case *events.SessionEnd:
		e.Metadata, e.SessionMetadata = events.Metadata{Type: kind, Code: SessionEndCode}, events.SessionMetadata{SessionID: sid}
	}
	e.SetTime(at.UTC())
	return e
}

func TestPagesTogetherAreTheWhole(t *testing.T) {
	for name, log := range logs(t) {
		t.Run(name, func(t *testing.T) {
			begin := time.Now().Truncate(time.Millisecond)
			var want []string
			for i := range 57 {
				kind := []string{SessionStart, SessionEnd}[i%2]
				e := event(kind, begin.Add(time.Duration(i*7%57)*time.Millisecond), fmt.Sprint("s", i%5)) // not in order
				if err := Complete(e, "c"); err != nil {
					t.Fatal(err)
				}
				if err := log.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				if kind == SessionStart {
					want = append(want, eventKey(e.GetTime(), e.GetID()))
				}
			}
			slices.Sort(want)
			rapid.Check(t, func(rt *rapid.T) {
				q := Query{From: begin, To: begin.Add(time.Minute), Types: []string{SessionStart}, Limit: rapid.IntRange(1, 40).Draw(rt, "limit"), Descending: rapid.Bool().Draw(rt, "descending")}
				var got []string
				for range 100 {
					found, key, err := log.Search(t.Context(), q)
					if err != nil {
						rt.Fatal(err)
					}
					if len(found) > q.Limit {
						rt.Fatalf("%d events in a page of %d", len(found), q.Limit)
					}
					for _, e := range found {
						got = append(got, eventKey(e.GetTime(), e.GetID()))
					}
					if q.StartKey = key; key == "" {
						break
					}
				}
				if q.Descending {
					slices.Reverse(got)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatal(diff)
				}
			})
		})
	}
}

func TestWhatIsFound(t *testing.T) {
	for name, log := range logs(t) {
		t.Run(name, func(t *testing.T) {
			at := time.Now().UTC().Truncate(time.Millisecond)
			for _, e := range []events.AuditEvent{event(SessionStart, at, "a"), event(SessionEnd, at.Add(time.Second), "a"), event(SessionStart, at.Add(2*time.Second), "b")} {
				if err := Complete(e, "c"); err != nil {
					t.Fatal(err)
				}
				if err := log.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			for _, row := range []struct {
				name string
				q    Query
				want int
			}{
				{"everything", Query{From: at, To: at.Add(time.Minute)}, 3},
				{"everything there ever was", Query{To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, 3},
				{"by type", Query{From: at, To: at.Add(time.Minute), Types: []string{SessionEnd}}, 1},
				{"by several types", Query{From: at, To: at.Add(time.Minute), Types: []string{SessionEnd, SessionStart}}, 3},
				{"by session", Query{From: at, To: at.Add(time.Minute), SessionID: "a"}, 2},
				{"from is included, to is not", Query{From: at, To: at.Add(2 * time.Second)}, 2},
				{"nothing before", Query{From: at.Add(-time.Hour), To: at}, 0},
			} {
				row.q.Limit = 100
				found, key, err := log.Search(t.Context(), row.q)
				if err != nil || len(found) != row.want || key != "" {
					t.Errorf("%s: %d events, key %q and %v, want %d", row.name, len(found), key, err, row.want)
				}
			}
		})
	}
}

func TestLinesLookAsTheRealOnes(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenFiles(dir, "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	e := event(SessionStart, time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), "a")
	e.SetID("id")
	e.SetClusterName("c")
	if err := log.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	day := filepath.Join(dir, "host", time.Now().UTC().Format("2006-01-02")+".00:00:00.log")
	if _, err := os.Stat(day); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "events.log"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"ei":0,"event":"session.start","uid":"id","code":"T2000I","time":"2026-11-30T01:02:03Z","cluster_name":"c",`; !strings.HasPrefix(string(b), want) || !strings.Contains(string(b), `"sid":"a"`) {
		t.Errorf("line is %s", b)
	}
}

func TestALineBeingWrittenIsNotRead(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenFiles(dir, "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	if _, err := log.file.WriteString(`{"event":"session.start","time":"` + time.Now().UTC().Format(time.RFC3339Nano) + `"`); err != nil {
		t.Fatal(err)
	}
	found, _, err := log.Search(t.Context(), Query{From: time.Unix(0, 0), To: time.Now().Add(time.Hour), Limit: 10})
	if err != nil || len(found) != 0 {
		t.Errorf("got %v and %v", found, err)
	}
}

func TestAnEventWithoutACodeIsRefused(t *testing.T) {
	if err := Complete(&events.SessionStart{Metadata: events.Metadata{Type: SessionStart}}, "c"); err == nil {
		t.Error("it is taken")
	}
}
