package runs

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

//go:embed behaviours.yaml
var behaviours []byte

// TestE2EEveryBehaviour is one run with everything that sessions can do. The verdict has to be pass; but that alone
// could mean that nobody did anything, so what each session did is held against its own behaviour, and when it came
// against its stream's arrivals.
func TestE2EEveryBehaviour(t *testing.T) {
	onlyLong(t)
	result := trial{text: behaviours, seed: 7}.judged(t)
	v := result.Verdict
	t.Logf("%s after %.0f s", v.Verdict, v.Seconds)
	if v.Verdict != checks.Pass {
		tell(t, v)
		t.Fatalf("it ends in %s, want pass:\n%s", v.Verdict, findings(v))
	}
	w := readWork(t, result.Folder)
	for _, s := range w.plan.Streams {
		sessions := w.sessions[s.Name]
		if len(sessions) == 0 {
			t.Errorf("%s: no session", s.Name)
		}
		for _, x := range sessions {
			if wrong := amiss(x, w.drawn(t, s, x)); wrong != "" {
				t.Errorf("%s, %s %s: %s\n%+v", x.ID, x.Type, x.Behaviour, wrong, x)
			}
		}
		w.arrivals(t, s)
	}
	w.all(t)
	w.recordings(t)
}

// TestEveryBehaviourIsInTheRun holds the scenario against the language: what is added there is tried here.
func TestEveryBehaviourIsInTheRun(t *testing.T) {
	s, err := scenarios.Decode("behaviours.yaml", behaviours, decodeOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	said := words{}
	for _, stream := range s.Load {
		said.arrival(stream.Arrival)
		for _, m := range stream.Mix {
			said.session(m.Session)
		}
	}
	for _, row := range scenarios.Behaviours() {
		for _, kind := range row.Kinds {
			said.want(t, kind+" "+row.Name)
		}
	}
	for _, shape := range []scenarios.Shape{scenarios.Constant, scenarios.Uniform, scenarios.Exponential, scenarios.Lognormal, scenarios.Empirical} {
		said.want(t, string(shape))
	}
	for _, word := range []string{"constant rate", "poisson", "ramp", "steps", "maxHeld", "closed", "over", "think", "spdy", "up", "down"} {
		said.want(t, word)
	}
}

// words are those of the language that a scenario uses.
type words map[string]bool

func (w words) want(t *testing.T, word string) {
	t.Helper()
	if !w[word] {
		t.Errorf("%s is not in the scenario: %v", word, slices.Sorted(maps.Keys(w)))
	}
}

func (w words) session(s scenarios.Session) {
	for _, word := range []string{s.Kind + " " + s.Behaviour, string(s.Length.Shape), string(s.Pace.Shape), s.Protocol, s.Direction} {
		w[word] = true
	}
}

func (w words) arrival(a scenarios.Arrival) {
	w["maxHeld"] = w["maxHeld"] || a.MaxHeld > 0
	if c := a.Closed; c != nil {
		w["closed"], w["over"], w["think"] = true, w["over"] || c.Over > 0, w["think"] || !c.Think.IsZero()
		w[string(c.Think.Shape)] = true
		return
	}
	if a.Open.Distribution == "poisson" {
		w["poisson"] = true
		return
	}
	switch legs := a.Open.Legs; {
	case len(legs) == 1:
		w["constant rate"] = true
	case legs[0].From != legs[0].To:
		w["ramp"] = true
	default:
		w["steps"] = true
	}
}

// work is what a run's history says that sessions did.
type work struct {
	plan     *scenarios.Plan
	sessions map[string][]history.Session // by stream
	recorded map[string][]history.Recording
	began    time.Duration // of the load, by the run's clock; found from the first stream that has due times
}

func readWork(t *testing.T, folder string) *work {
	t.Helper()
	events, status, err := history.ReadFile(filepath.Join(folder, checks.HistoryFile))
	if err != nil || !status.Whole() {
		t.Fatalf("history: %v, %s", err, status)
	}
	f, err := os.Open(filepath.Join(folder, checks.PlanFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plan, err := scenarios.ReadPlan(f)
	if err != nil {
		t.Fatal(err)
	}
	w := &work{plan: plan, sessions: map[string][]history.Session{}, recorded: map[string][]history.Recording{}}
	for _, e := range events {
		switch x := e.Data.(type) {
		case history.Session:
			w.sessions[x.Stream] = append(w.sessions[x.Stream], x)
		case history.Recording:
			w.recorded[x.Session] = append(w.recorded[x.Session], x)
		}
	}
	return w
}

// drawn is what the plan drew for a session.
func (w *work) drawn(t *testing.T, s scenarios.StreamPlan, x history.Session) scenarios.Drawn {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscanf(x.ID, s.Name+"/%d", &n); err != nil {
		t.Fatalf("%s: %v", x.ID, err)
	}
	return s.Session(n, w.plan.Teleport.Users)
}

// amiss says what a session did not do that it should have; "" if it did all.
func amiss(x history.Session, d scenarios.Drawn) string {
	s := d.Session
	switch {
	case x.Type != s.Kind || x.Behaviour != s.Behaviour || x.Want != d.Length:
		return fmt.Sprintf("the plan drew %s %s of %s", s.Kind, s.Behaviour, d.Length)
	case x.Class != history.Clean:
		return "it did not end by itself"
	case x.Open == 0 || x.Open < x.Start || x.Start < x.Due || x.End-x.Open < x.Want:
		return "its times are not in order, or it ended before its time"
	case len(x.Phases) == 0 || x.Proxy.UID == "" || x.User == "":
		return "it does not know how it was opened"
	case s.Kind == scenarios.SSH && x.Agent.UUID == "", s.Kind == scenarios.KubeExec && x.Agent.Pod.UID == "":
		return "it does not know where it went"
	}
	return undone(x, s)
}

// undone is what its behaviour asks for and it did not do.
func undone(x history.Session, s scenarios.Session) string {
	lines := x.Lines.Sent > 0 && x.Lines.Acked == x.Lines.Sent && x.Lines.Bad == 0
	held := (x.End - x.Open).Seconds()
	for _, must := range []struct {
		behaviours []string
		did        bool
		what       string
	}{
		{[]string{"interactive", "channels", "bulk"}, lines, "not each of its lines came back as it was typed"},
		{[]string{"channels"}, x.ServerSession != "", "its terminal told no session"},
		// Half of what was asked: the first tick is somewhere in its pause, and busy machines miss some.
		{[]string{"bulk"}, float64(x.BytesReceived) > held*float64(s.Rate)/2, "it received less than half of its rate"},
		{[]string{"idle"}, x.LastHeard >= x.Open+s.Keepalive.Duration() && x.Lines.Sent == 0, "no keep-alive was answered, or it typed"},
		{[]string{"command"}, x.Exit != nil && *x.Exit == s.Exit, "its command's exit status was not seen"},
		{[]string{"transfer"}, moved(x, s), "not all its bytes were moved"},
		// Clean means that every expectation came true; the echo of what was sent alone would be as long.
		{[]string{"scripted"}, x.Exit != nil && *x.Exit == 0 && x.BytesReceived > 0, "its shell was not left"},
		{[]string{"watch"}, x.Answers >= 2 && x.BytesReceived > 0, "it saw fewer pods than there are"},
		{[]string{"calls"}, x.Answers >= 5 && x.BytesReceived > 0, "hardly a call was answered"},
	} {
		if slices.Contains(must.behaviours, s.Behaviour) && !must.did {
			return must.what
		}
	}
	if s.Kind == scenarios.KubePortForward && x.BytesReceived == 0 {
		return "nothing came back through the port"
	}
	return ""
}

// moved says whether a transfer moved what it should, and kept to its rate.
func moved(x history.Session, s scenarios.Session) bool {
	const checksum = 64 // letters
	if s.Direction == "up" {
		return x.BytesSent == s.Size && x.BytesReceived >= checksum
	}
	least := 0.0
	if s.Rate > 0 {
		least = 0.8 * float64(s.Size) / float64(s.Rate)
	}
	return x.BytesReceived == s.Size && (x.End-x.Open).Seconds() >= least
}

// arrivals holds when sessions were due against the stream's plan.
func (w *work) arrivals(t *testing.T, s scenarios.StreamPlan) {
	t.Helper()
	if c := s.Arrival.Closed; c != nil {
		w.replaced(t, s, c)
		return
	}
	due := map[uint64]time.Duration{}
	for _, x := range w.sessions[s.Name] {
		due[w.drawn(t, s, x).N] = x.Due
	}
	n := 0
	for number, at := range s.Arrivals() {
		got, ok := due[number]
		if w.began == 0 {
			w.began = got - at
		}
		if n++; !ok || (got-at-w.began).Abs() > time.Microsecond {
			t.Errorf("%s/%d was due at %s, want %s after %s", s.Name, number, got, at, w.began)
		}
	}
	if n != len(due) || n < 4 {
		t.Errorf("%s: %d arrivals are planned, %d came", s.Name, n, len(due))
	}
}

// replaced: as many are held as should be, and each that ends makes room for another.
func (w *work) replaced(t *testing.T, s scenarios.StreamPlan, c *scenarios.Closed) {
	t.Helper()
	each := max(s.Mix[0].Session.Channels, 1)
	all := w.sessions[s.Name]
	most := 0
	for _, x := range all {
		held := 0
		for _, y := range all {
			if y.Start <= x.Start && x.Start < y.End {
				held++
			}
		}
		most = max(most, held)
	}
	if most != c.Held*each {
		t.Errorf("%s: held at most %d at once, want %d", s.Name, most, c.Held*each)
	}
	if len(all) <= c.Held*each || len(all)%each != 0 {
		t.Errorf("%s: %d sessions: none was replaced, or a connection lacks some", s.Name, len(all))
	}
}

// all looks that no two sessions are one, and at what concerns them together.
func (w *work) all(t *testing.T) {
	t.Helper()
	ids, done, through := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, x := range slices.Concat(slices.Collect(maps.Values(w.sessions))...) {
		if ids[x.ID] {
			t.Errorf("%s is in the ledger twice", x.ID)
		}
		ids[x.ID], done[x.Type+" "+x.Behaviour], through[x.Proxy.UID] = true, true, true
	}
	for _, row := range scenarios.Behaviours() {
		for _, kind := range row.Kinds {
			if !done[kind+" "+row.Name] {
				t.Errorf("no %s session was %s", kind, row.Name)
			}
		}
	}
	if len(through) != 2 {
		t.Errorf("sessions went through %d proxies, want both", len(through))
	}
}

// recordings: one, complete, for each terminal, and none for what is none.
func (w *work) recordings(t *testing.T) {
	t.Helper()
	terminals := []string{"interactive", "bulk", "idle", "channels", "scripted"}
	n := 0
	for _, x := range slices.Concat(slices.Collect(maps.Values(w.sessions))...) {
		kind := x.Type == scenarios.SSH || x.Type == scenarios.KubeExec
		if want := kind && slices.Contains(terminals, x.Behaviour); x.Recorded != want {
			t.Errorf("%s, %s %s: recorded %t", x.ID, x.Type, x.Behaviour, x.Recorded)
		}
		got := w.recorded[x.ID]
		switch {
		case !x.Recorded && len(got) > 0:
			t.Errorf("%s is no terminal and has a recording: %+v", x.ID, got)
		case x.Recorded && (len(got) != 1 || got[0].Class != history.RecComplete || got[0].NotRead || got[0].Found != x.Lines.Acked):
			t.Errorf("%s, %d lines: recordings %+v", x.ID, x.Lines.Acked, got)
		}
		n += len(got)
	}
	if n == 0 || n != len(w.recorded) {
		t.Errorf("%d recordings, of %d sessions", n, len(w.recorded))
	}
}
