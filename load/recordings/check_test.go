package recordings

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/types/events"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/teleport/audit"
)

// book is a recorder in memory.
type book struct {
	start  time.Time
	mu     sync.Mutex
	events []history.Event
}

func (b *book) Record(e history.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}
func (b *book) Now() time.Duration              { return time.Since(b.start) }
func (b *book) Since(t time.Time) time.Duration { return t.Sub(b.start) }

func (b *book) recordings() map[string]history.Recording {
	out := map[string]history.Recording{}
	for _, e := range b.events {
		if r, ok := e.Data.(history.Recording); ok {
			out[r.Session] = r
		}
	}
	return out
}

// server is an auth server that knows what becomes of recordings.
type server struct {
	start  time.Time
	events []audit.Event
	plays  map[string]audit.Playback
	there  map[string]time.Duration // from when on a recording can be played
	down   error                    // what every call says; nil: it works
	later  func()                   // done five seconds after the sessions ended

	mu    sync.Mutex
	looks int
	reads map[string]int
}

func (s *server) Events(_ context.Context, from, to time.Time, types ...string) iter.Seq2[audit.Event, error] {
	return func(yield func(audit.Event, error) bool) {
		s.mu.Lock()
		s.looks++
		s.mu.Unlock()
		if s.down != nil {
			yield(audit.Event{}, s.down)
			return
		}
		for _, e := range s.events {
			if !e.Time.After(time.Now()) && !e.Time.Before(from) && slices.Contains(types, e.Type) && !yield(e, nil) {
				return
			}
		}
	}
}

func (s *server) Play(_ context.Context, id string) (audit.Playback, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads[id]++
	if s.down != nil {
		return audit.Playback{}, s.down
	}
	at, ok := s.there[id]
	if !ok || time.Since(s.start) < at {
		return audit.Playback{}, audit.ErrNotFound
	}
	return s.plays[id], nil
}

// world is a run in which sessions ended at minute 1, and what the server has of them.
type world struct {
	book     *book
	server   *server
	sessions []Session
	holders  map[string]Holder
	auths    []Holder
}

const ended = time.Minute

func newWorld() *world {
	start := time.Now()
	return &world{
		book: &book{start: start}, holders: map[string]Holder{},
		server: &server{start: start, plays: map[string]audit.Playback{}, there: map[string]time.Duration{}, reads: map[string]int{}},
	}
}

// typed is what a session of n lines leaves in the ledger, and what its recording shows.
func typed(n uint64) (history.Lines, []byte) {
	token := lines.Token(5)
	var t lines.Tally
	var out []byte
	for i := uint64(1); i <= n; i++ {
		line := lines.Append(nil, token, i, 50)
		t.Add(i, line[:len(line)-1])
		out = append(append(out, line[:len(line)-1]...), '\r', '\n')
	}
	return history.Lines{Token: token, Sent: n, Acked: n, Ranges: t.Ranges, Sum: t.Sum}, out
}

// add puts a session into the world whose recording is whole and comes after.
func (w *world) add(id string, after time.Duration) *Session {
	l, out := typed(10)
	w.sessions = append(w.sessions, Session{
		ID: id, ServerSession: "sid-" + id, Type: "ssh", User: "u", Open: time.Second, End: ended,
		Agent: history.Agent{Pod: history.PodRef{Name: "agent", UID: "agent-" + id}}, Proxy: history.PodRef{Name: "proxy", UID: "proxy-" + id}, Lines: l,
	})
	w.event(id, audit.SessionStart, time.Second)
	w.event(id, audit.SessionEnd, ended)
	w.event(id, audit.SessionUpload, ended+after)
	w.server.there["sid-"+id] = ended + after
	w.server.plays["sid-"+id] = audit.Playback{Output: out, Started: true, Ended: true}
	return &w.sessions[len(w.sessions)-1]
}

func (w *world) event(id, typ string, at time.Duration) {
	w.server.events = append(w.server.events, audit.Event{Type: typ, Session: "sid-" + id, Time: w.server.start.Add(at), Raw: &events.SessionStart{}})
}

func (w *world) forget(id, typ string) {
	w.server.events = slices.DeleteFunc(w.server.events, func(e audit.Event) bool { return e.Session == "sid-"+id && e.Type == typ })
}

// lose takes a session's recording and upload away.
func (w *world) lose(id string) {
	w.forget(id, audit.SessionUpload)
	delete(w.server.there, "sid-"+id)
}

func (w *world) cut(id string, from, to uint64) {
	l, _ := typed(10)
	var out []byte
	for n := uint64(1); n <= l.Sent; n++ {
		if n < from || n > to {
			out = append(lines.Append(out, l.Token, n, 50), '\r', '\n')
		}
	}
	w.server.plays["sid-"+id] = audit.Playback{Output: out, Started: true, Ended: true}
}

func (w *world) check(mode string, change func(*Options)) Summary {
	time.Sleep(ended)
	opts := Options{
		Log: w.server, History: w.book, Mode: mode, Settle: 30 * time.Second, Late: 10 * time.Second,
		Holder: func(p history.PodRef, _ time.Duration) Holder { return w.holders[p.UID] },
		Auths:  func(_, _ time.Duration) []Holder { return w.auths },
	}
	if w.server.later != nil {
		time.AfterFunc(5*time.Second, w.server.later)
	}
	if change != nil {
		change(&opts)
	}
	s, err := Check(context.Background(), opts, w.sessions)
	if err != nil {
		panic(err)
	}
	return s
}

// TestClasses is each way in which a recording can end up, and how soon that is certain.
func TestClasses(t *testing.T) {
	emptied := Holder{Gone: true, Storage: "emptyDir"}
	tests := []struct {
		because string
		mode    string
		prepare func(w *world)
		class   history.RecordingClass
		within  time.Duration // of the check's begin
		detail  string
	}{
		{"everything is there", "node", func(*world) {}, history.RecComplete, 3 * time.Second, ""},
		{"it comes after the bound", "node", func(w *world) {
			w.forget("a", audit.SessionUpload)
			w.event("a", audit.SessionUpload, ended+12*time.Second)
		}, history.RecLate, 15 * time.Second, "complete 12s after the session's end"},
		{"its tail is missing", "node", func(w *world) { w.cut("a", 8, 10) }, history.RecTruncated, 3 * time.Second, "the last 3 lines are missing"},
		{"all of it is missing", "node", func(w *world) { w.cut("a", 1, 10) }, history.RecTruncated, 3 * time.Second, "the last 10 lines are missing"},
		{"lines inside are missing", "node", func(w *world) { w.cut("a", 4, 5) }, history.RecGap, 3 * time.Second, "2 lines missing inside"},
		{"events without lines are missing", "node", func(w *world) {
			p := w.server.plays["sid-a"]
			p.Missing = [][2]int64{{3, 4}}
			w.server.plays["sid-a"] = p
		}, history.RecGap, 3 * time.Second, "all lines are there, but 2 events are missing by their numbers"},
		{"events come twice", "node", func(w *world) {
			p := w.server.plays["sid-a"]
			p.Duplicates = 2
			w.server.plays["sid-a"] = p
		}, history.RecComplete, 3 * time.Second, "2 events came more than once and were counted once"},
		{"the end was never logged", "node", func(w *world) { w.forget("a", audit.SessionEnd) }, history.RecNoEnd, 40 * time.Second, "the audit log has no session.end"},
		{"the holder lives, and nothing came", "node", func(w *world) { w.lose("a") }, history.RecMissing, 40 * time.Second, "not uploaded within 30s"},
		{"the log does not know the session", "node", func(w *world) { w.lose("a"); w.server.events = nil }, history.RecMissing, 40 * time.Second, "the audit log does not know the session"},
		{"the holder is gone with its folder", "node", func(w *world) { w.lose("a"); w.holders["agent-a"] = emptied }, history.RecMissing, 8 * time.Second, "the pod that held it is gone, with its emptyDir"},
		{"the holder is gone, its volume is not", "node", func(w *world) { w.lose("a"); w.holders["agent-a"] = Holder{Gone: true, Storage: "pvc"} }, history.RecPending, 40 * time.Second, "its upload was abandoned; the upload completer may still finish it"},
		{"the holder's process ended, so the completer has to come", "node", func(w *world) { w.lose("a"); w.holders["agent-a"] = Holder{Restarted: true, Storage: "emptyDir"} }, history.RecPending, 40 * time.Second, "its upload was abandoned; the upload completer may still finish it"},
		{"the proxy is gone, which holds nothing in this mode", "node", func(w *world) { w.lose("a"); w.holders["proxy-a"] = emptied }, history.RecMissing, 40 * time.Second, "not uploaded within 30s"},
		{"the proxy records, and is gone", "proxy", func(w *world) { w.lose("a"); w.holders["proxy-a"] = emptied }, history.RecMissing, 8 * time.Second, "the pod that held it is gone, with its emptyDir"},
		{"the auth holds it, and the recorder is gone", "node-sync", func(w *world) { w.lose("a"); w.holders["agent-a"] = emptied }, history.RecPending, 40 * time.Second, "its upload was abandoned; the upload completer may still finish it"},
		{"the auths that can hold it are all gone", "node-sync", func(w *world) { w.lose("a"); w.auths = []Holder{emptied, emptied} }, history.RecMissing, 8 * time.Second, "the pod that held it is gone, with its emptyDir"},
		{"one of the auths that can hold it is gone", "node-sync", func(w *world) { w.lose("a"); w.auths = []Holder{emptied, {Storage: "emptyDir"}} }, history.RecPending, 40 * time.Second, "its upload was abandoned; the upload completer may still finish it"},
		{"the auths live, and nothing came", "node-sync", func(w *world) { w.lose("a"); w.auths = []Holder{{Storage: "emptyDir"}} }, history.RecMissing, 40 * time.Second, "not uploaded within 30s"},
		{"a truncated upload is followed by a whole one", "node-sync", func(w *world) {
			whole := w.server.plays["sid-a"]
			w.cut("a", 4, 10)
			w.forget("a", audit.SessionUpload)
			w.forget("a", audit.SessionEnd)
			w.event("a", audit.SessionUpload, ended-time.Second)
			w.event("a", audit.SessionEnd, ended+4*time.Second)
			w.event("a", audit.SessionUpload, ended+6*time.Second)
			w.server.later = func() {
				w.server.mu.Lock()
				defer w.server.mu.Unlock()
				w.server.plays["sid-a"] = whole
			}
		}, history.RecComplete, 10 * time.Second, ""},
		{"it was uploaded in the holder's last moment", "node", func(w *world) { w.holders["agent-a"] = emptied }, history.RecComplete, 3 * time.Second, ""},
		{"it is there, but its upload was not logged", "node", func(w *world) { w.forget("a", audit.SessionUpload) }, history.RecNoEnd, 40 * time.Second, "the audit log has no session.upload"},
		{"nothing can be read", "node", func(w *world) { w.server.down = errors.New("auth is down") }, history.RecPending, 40 * time.Second, "the audit log could not be read: auth is down"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 0)
				tt.prepare(w)
				s := w.check(tt.mode, nil)
				r := w.book.recordings()["a"]
				if r.Class != tt.class || r.Detail != tt.detail || s.Classes[tt.class] != 1 {
					t.Errorf("got %s, %q; want %s, %q; %v", r.Class, r.Detail, tt.class, tt.detail, s.Classes)
				}
				if took := w.book.Now() - ended; took > tt.within {
					t.Errorf("that was certain after %s, want at most %s", took, tt.within)
				}
				if (s.Blind != nil) != (w.server.down != nil) {
					t.Errorf("blind: %v", s.Blind)
				}
			})
		})
	}
}

// TestCompleterLate: what the completer has not brought when even its time is over is missing.
func TestCompleterLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 0)
		w.lose("a")
		w.holders["agent-a"] = Holder{Restarted: true}
		w.check("node", func(o *Options) { o.Completer = 20 * time.Second })
		if r := w.book.recordings()["a"]; r.Class != history.RecMissing {
			t.Errorf("got %s (%s)", r.Class, r.Detail)
		}
	})
}

// TestUploadersBackOff: what was not uploaded after an auth had ended may still wait with an agent that lives.
func TestUploadersBackOff(t *testing.T) {
	const auth = time.Minute - 10*time.Second // when one of two auths ended
	for _, tt := range []struct {
		because, mode string
		end           time.Duration
		holder        Holder
		uploader      time.Duration
		want          history.RecordingClass
	}{
		{"it ended after the auth", "node", ended, Holder{Storage: "emptyDir"}, 0, history.RecPending},
		{"it was uploaded long before, to an auth that is gone", "node", 20 * time.Second, Holder{}, 0, history.RecMissing},
		{"its agent is gone, too", "node", ended, Holder{Gone: true, Storage: "emptyDir"}, 0, history.RecMissing},
		{"the longest wait is over", "node", ended, Holder{}, 20 * time.Second, history.RecMissing},
		{"it is sent as it is recorded", "node-sync", ended, Holder{}, 0, history.RecMissing},
	} {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 0).End = tt.end
				w.lose("a")
				w.holders["agent-a"] = tt.holder
				w.check(tt.mode, func(o *Options) {
					o.Uploader = tt.uploader
					o.Auths = func(from, _ time.Duration) []Holder {
						if from >= auth {
							return make([]Holder, 1)
						}
						return make([]Holder, 2)
					}
				})
				if r := w.book.recordings()["a"]; r.Class != tt.want {
					t.Errorf("got %s (%s), want %s", r.Class, r.Detail, tt.want)
				}
			})
		})
	}
}

func TestInterruptedIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 0)
		w.add("b", time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), ended+5*time.Second)
		defer cancel()
		time.Sleep(ended)
		if _, err := Check(ctx, Options{Log: w.server, History: w.book, Mode: "node", Settle: 30 * time.Second}, w.sessions); err != nil {
			t.Fatal(err)
		}
		got := w.book.recordings()
		if got["a"].Class != history.RecComplete || got["b"].Class != history.RecPending {
			t.Errorf("got %+v", got)
		}
	})
}

// TestSample: the log is read for all, recordings are played back for the sample, and the rest says so.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 400 {
			w.add(fmt.Sprint(i), 0)
		}
		s := w.check("node", func(o *Options) { o.Sample, o.Seed = 0.25, 7 })
		notRead := 0
		for _, r := range w.book.recordings() {
			if r.Class != history.RecComplete {
				t.Fatalf("%+v", r)
			}
			if r.NotRead {
				notRead++
			}
		}
		if s.Played+notRead != 400 || s.Played < 70 || s.Played > 130 || len(w.server.reads) != s.Played {
			t.Errorf("%d played, %d not read", s.Played, notRead)
		}
	})
}

// TestFoundAgain: sessions that cannot tell their id in the log are found by token or address.
func TestFoundAgain(t *testing.T) {
	tests := []struct {
		because string
		mode    string
		forget  func(*Session)
		start   events.SessionStart
		remote  string
	}{
		{"a command in a container has its token in the log", "node", func(s *Session) { s.ServerSession, s.Type = "", "kube-exec" }, events.SessionStart{InitialCommand: []string{"sh", "-c", ": " + lines.Token(5) + "; exec cat"}}, ""},
		{"a session that a proxy records has another id, but its client's address", "proxy", func(s *Session) { s.ServerSession, s.Local = "other", "10.0.0.1:5" }, events.SessionStart{}, "10.0.0.1:5"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				tt.forget(w.add("a", 0))
				w.server.events[0].Raw, w.server.events[0].User = &tt.start, "u"
				w.server.events[0].Remote = tt.remote
				w.check(tt.mode, nil)
				if r := w.book.recordings()["a"]; r.Class != history.RecComplete || r.ServerSession != "sid-a" {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

// TestPortUsedAgain: two sessions came from one address, one after the other. Each gets the recording of its own time,
// in whichever order the log tells of them.
func TestPortUsedAgain(t *testing.T) {
	for _, row := range []struct {
		because string
		order   []string // of the start events in the log
	}{
		{"the log tells of the earlier first", []string{"early", "late"}},
		{"the log tells of the later first", []string{"late", "early"}},
	} {
		t.Run(row.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for id, open := range map[string]time.Duration{"early": time.Second, "late": 40 * time.Second} {
					s := w.add(id, 0)
					s.ServerSession, s.Local, s.Open = "other-"+id, "10.0.0.1:5", open
					s.Lines.Token = "token of " + id // not in what the log has of a terminal
				}
				var starts []audit.Event
				for _, id := range row.order {
					w.forget(id, audit.SessionStart)
					at := map[string]time.Duration{"early": 1100 * time.Millisecond, "late": 40100 * time.Millisecond}[id]
					starts = append(starts, audit.Event{Type: audit.SessionStart, Session: "sid-" + id, User: "u", Remote: "10.0.0.1:5",
						Time: w.server.start.Add(at), Raw: &events.SessionStart{}})
				}
				w.server.events = append(starts, w.server.events...)
				w.check("proxy", nil)
				got := w.book.recordings()
				for id := range map[string]bool{"early": true, "late": true} {
					if r := got[id]; r.ServerSession != "sid-"+id {
						t.Errorf("%s was joined to %s", id, r.ServerSession)
					}
				}
			})
		})
	}
}

// TestAuditOnce: events that are seen at every look are written down once.
func TestAuditOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 8*time.Second)
		w.check("node", nil)
		n := 0
		for _, e := range w.book.events {
			if _, ok := e.Data.(history.Audit); ok {
				n++
			}
		}
		if n != 3 || w.server.looks < 3 {
			t.Errorf("%d audit events of 3 in %d looks", n, w.server.looks)
		}
	})
}

// TestTailAndInside: whatever is missing is either at the end or inside, and all of it is counted.
func TestTailAndInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		acked, recorded := map[uint64]bool{}, map[uint64]bool{}
		var want lines.Tally
		var p audit.Playback
		token, last, tailWant := lines.Token(5), uint64(0), uint64(0)
		for n := uint64(1); n <= 20; n++ {
			acked[n] = rapid.Bool().Draw(t, "acked")
			recorded[n] = rapid.Bool().Draw(t, "recorded")
			line := lines.Append(nil, token, n, 40)
			if acked[n] {
				want.Add(n, line[:len(line)-1])
				last = n
			}
			if recorded[n] {
				p.Output = append(p.Output, line...)
			}
		}
		for n := last; n > 0 && !recorded[n]; n-- {
			if acked[n] {
				tailWant++
			}
		}
		f := compare(history.Lines{Token: token, Acked: want.Count(), Ranges: want.Ranges, Sum: want.Sum}, p)
		both := uint64(0)
		for n := range acked {
			if acked[n] && recorded[n] {
				both++
			}
		}
		// A tail ends where a recorded line of the acknowledged ones stands; others do not count.
		if f.lines != both || f.lines+f.tail+f.inside != want.Count() || f.disorder {
			t.Fatalf("%+v, of %d acknowledged %d are recorded", f, want.Count(), both)
		}
		if f.tail < tailWant {
			t.Fatalf("tail %d, at least %d", f.tail, tailWant)
		}
	})
}

func TestDisorderIsSeen(t *testing.T) {
	l, _ := typed(3)
	var out []byte
	for _, n := range []uint64{1, 3, 2} {
		out = lines.Append(out, l.Token, n, 50)
	}
	if f := compare(l, audit.Playback{Output: out}); !f.disorder || f.lines != 3 {
		t.Errorf("got %+v", f)
	}
}

func TestSamplingIsFair(t *testing.T) {
	n := 0
	for i := range 10_000 {
		if sampled(3, fmt.Sprint("s/", i), 0.1) {
			n++
		}
	}
	if diff := cmp.Diff(true, n > 900 && n < 1100); diff != "" {
		t.Errorf("%d of 10000 for a tenth", n)
	}
}
