package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var wall = time.Date(2026, 11, 30, 20, 0, 0, 123456789, time.UTC)

// samples has one event of every kind, with as many fields filled as the kind
// has shapes: nested refs, ranges, maps, text that JSON must escape.
func samples() []Event {
	proxy := PodRef{Name: "t-proxy-7d9-x", UID: "u-1", Component: "proxy", Node: "node2", Revision: "7d9"}
	exit := 0
	data := []Payload{
		RunStart{Format: Version, Run: "r1", Scenario: "steady", Seed: 1<<64 - 1, Desired: map[string]int{"proxy": 3}},
		Entry{Name: "kill", State: EntryStarted, Action: "podDelete", When: `rollout("proxy").updated >= 0.5 && a<b`},
		SessionOpened{ID: "terminals/1", Stream: "terminals", Due: 1, Start: 2, Open: 3, Proxy: proxy},
		Session{
			ID: "terminals/1", Stream: "terminals", Type: "ssh", Class: Dropped, Cut: CutReset, Exit: &exit,
			Phases: []PhaseTime{{PhaseTLS, 5}}, Proxy: proxy, Agent: Agent{UUID: "a", Pod: proxy},
			Lines: Lines{Token: "k", Sent: 9, Acked: 7, Ranges: [][2]uint64{{1, 4}, {6, 8}}, Sum: 0xffffffff},
			Gaps:  []Gap{{From: 7, Took: 9}}, Reason: "read tcp: \"reset\"\n\u2028<peer> ü",
		},
		Probe{Pod: proxy, Took: time.Second, Failed: PhaseRoute, Error: "no way"},
		Control{Target: "node1", Took: 1},
		PodChange{Pod: proxy, State: PodDeleting, Grace: 30 * time.Second},
		ContainerEnd{Pod: proxy, Container: "teleport", Exit: 137, Signal: 9, Reason: "OOMKilled", Finished: wall},
		NodeChange{Node: "node1", State: NodeCordoned},
		Endpoints{Service: "t", Component: "proxy", Ready: []PodRef{proxy}},
		Replicas{Component: "proxy", Desired: 3, Ready: 2},
		AgentChange{Agent: Agent{UUID: "a"}, State: "registered"},
		Rollout{ID: "rollout", Verb: "upgrade", Stage: RolloutProgress, Component: "proxy", Updated: 1, Total: 3},
		Fault{ID: "kill", Name: "podDelete", Stage: FaultBit, Targets: []Target{{Kind: "pod", Name: "p", Pod: proxy}}, Proof: "gone"},
		Undo{ID: "1", What: "uncordon node1", Tries: 1},
		Generator{CPU: 0.25, LateP99: 3, Streams: []StreamSample{{Name: "terminals", Target: 5, Due: 10, Held: 4}}},
		APIServer{Up: false, Since: 4, Error: "refused"},
		Clock{Jump: -time.Second},
		Audit{Event: "session.end", ServerSession: "s", Time: wall},
		Recording{Session: "terminals/1", Class: RecGap, Missing: [][2]uint64{{3, 4}}},
		Metrics{Pod: proxy, Values: map[string]float64{"up": 1.5}},
		Prometheus{Name: "failed", Query: "sum(up)", From: 1, Until: 2, Found: true, Value: 3, Series: []PrometheusSeries{{T: []float64{1}, V: []float64{2}}}},
		ProxyStop{Pod: PodRef{Name: "proxy-1"}, Grace: 60e9, Dropped: 30e9, Ended: 30e9, Gone: 31e9, Cut: CutEOF},
		Blind{What: "pods", From: 1, Until: 2},
		Health{When: "before", Of: "kill", Well: true},
		Overflow{Lost: map[Kind]uint64{KindProbe: 2}},
		RunEnd{How: "finished"},
	}
	var events []Event
	for i, p := range data {
		events = append(events, Event{
			Seq: uint64(i + 1), Due: time.Duration(i), At: time.Duration(i * 10), Wall: wall,
			Kind: p.Kind(), Subject: []string{"", "plain", "quo\"te ü"}[i%3], Outcome: []Outcome{"", OK}[i%2], Data: p,
		})
	}
	return events
}

func read(raw []byte) ([]Event, Status) {
	r := NewReader(bytes.NewReader(raw))
	events := slices.Collect(r.Events())
	return events, r.Status()
}

func TestEveryKindHasASample(t *testing.T) {
	var got []Kind
	for _, e := range samples() {
		got = append(got, e.Kind)
	}
	got = append(got, KindClosed)
	slices.Sort(got)
	want := Kinds()
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWrittenEventsComeBackTheSame(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"zstd": func(b *bytes.Buffer) error { return Write(b, samples()) },
		"text": func(b *bytes.Buffer) error { return WriteText(b, samples()) },
	} {
		t.Run(name, func(t *testing.T) {
			var raw bytes.Buffer
			if err := write(&raw); err != nil {
				t.Fatal(err)
			}
			got, status := read(raw.Bytes())
			if status.State != Complete {
				t.Fatal(status)
			}
			if diff := cmp.Diff(samples(), got[:len(got)-1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheFastPathAgreesWithEncodingJSON(t *testing.T) {
	for _, want := range samples() {
		byHand, byReflection := newLines(), new(bytes.Buffer)
		if err := byHand.add(want); err != nil {
			t.Fatal(err)
		}
		enc := json.NewEncoder(byReflection)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byReflection.String(), byHand.buf.String()); diff != "" {
			t.Error(diff)
		}
		var got Event
		if err := json.Unmarshal(byHand.buf.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestANewerFileStaysReadable(t *testing.T) {
	text := `{"seq":1,"atNs":5,"wall":"2026-11-30T20:00:00Z","kind":"telepathy","data":{"x":1}}
{"seq":2,"atNs":6,"wall":"2026-11-30T20:00:00Z","kind":"run.end","mood":"good","data":{"how":"finished","why":"new"}}
{"seq":3,"atNs":7,"wall":"2026-11-30T20:00:00Z","kind":"history.closed","data":{"events":2,"byKind":{"telepathy":1,"run.end":1}}}
`
	events, status := read([]byte(text))
	if status.State != Complete || status.Unknown["telepathy"] != 1 {
		t.Fatalf("%v, unknown %v", status, status.Unknown)
	}
	want := Other{Name: "telepathy", Raw: json.RawMessage(`{"x":1}`)}
	if diff := cmp.Diff(Payload(want), events[0].Data); diff != "" {
		t.Error(diff)
	}
	var again bytes.Buffer
	if err := Write(&again, events); err != nil {
		t.Fatal(err)
	}
	if rewritten, _ := read(again.Bytes()); cmp.Diff(events[:2], rewritten[:2]) != "" {
		t.Error("an unknown event changed when it was written again")
	}
}
