// Package history is the record of one run: what was due, what happened, to
// whom and how it ended. Everything that judges or reports reads it and
// nothing else, so an old run can be judged again by better checks.
//
// A history is zstd-compressed JSON lines, one [Event] a line. JSON because a
// person with zstdcat and jq must be able to read it in ten years; a binary
// format would be smaller by a third and unreadable.
//
// All times inside a history are nanoseconds of the monotonic clock since the
// run started, under keys that end in "Ns". The wall clock is written beside
// them only to find a moment in the logs of other programs.
package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Version is the format's name, in the first event of every history.
const Version = "shakedown.dev/history/v1alpha1"

// Event is one line of a history.
type Event struct {
	// Seq counts from 1 without holes; a hole means that the file was damaged.
	Seq uint64 `json:"seq"`
	// Due is when it should have happened; zero where nothing was planned.
	Due time.Duration `json:"dueNs,omitempty"`
	// At is when it happened, by the monotonic clock, since the run started.
	At time.Duration `json:"atNs"`
	// Wall is the same moment by the wall clock, in UTC.
	Wall time.Time `json:"wall"`
	// Kind says which payload Data is; it is always Data.Kind().
	Kind Kind `json:"kind"`
	// Subject is to whom: a session, pod, node, timeline entry or fault by name.
	Subject string `json:"subject,omitempty"`
	// Outcome is how it ended; empty for a plain observation.
	Outcome Outcome `json:"outcome,omitempty"`
	// Data is one of the payload structs of this package, by value; never nil
	// in a history that was read.
	Data Payload `json:"data"`
}

// Late is how long after its due time the event happened; 0 where nothing was due.
func (e Event) Late() time.Duration {
	if e.Due == 0 || e.At < e.Due {
		return 0
	}
	return e.At - e.Due
}

// Outcome is how an operation ended, in Jepsen's three words.
type Outcome string

// The outcomes. Unknown means that nobody can say whether it took effect.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Payload is the part of an event that depends on its kind. The structs of
// this package are its only implementations, used by value.
type Payload interface{ Kind() Kind }

// Kind names what an event tells.
type Kind string

// The kinds: a closed list. A reader meets others only in newer files, as [Other].
const (
	KindRunStart   Kind = "run.start"        // RunStart
	KindRunEnd     Kind = "run.end"          // RunEnd
	KindEntry      Kind = "entry"            // Entry
	KindOpened     Kind = "session.opened"   // SessionOpened
	KindSession    Kind = "session.ended"    // Session
	KindProbe      Kind = "probe"            // Probe
	KindControl    Kind = "control"          // Control
	KindPod        Kind = "pod"              // PodChange
	KindContainer  Kind = "container"        // ContainerEnd
	KindNode       Kind = "node"             // NodeChange
	KindEndpoints  Kind = "endpoints"        // Endpoints
	KindReplicas   Kind = "replicas"         // Replicas
	KindAgent      Kind = "agent"            // AgentChange
	KindRollout    Kind = "rollout"          // Rollout
	KindFault      Kind = "fault"            // Fault
	KindUndo       Kind = "undo"             // Undo
	KindGenerator  Kind = "generator"        // Generator
	KindAPIServer  Kind = "apiserver"        // APIServer
	KindClock      Kind = "clock"            // Clock
	KindAudit      Kind = "audit"            // Audit
	KindRecording  Kind = "recording"        // Recording
	KindMetrics    Kind = "metrics"          // Metrics
	KindProxyStop  Kind = "proxy.stop"       // ProxyStop
	KindPrometheus Kind = "prometheus"       // Prometheus
	KindBlind      Kind = "blind"            // Blind
	KindHealth     Kind = "health"           // Health
	KindOverflow   Kind = "history.overflow" // Overflow
	KindClosed     Kind = "history.closed"   // Closed
)

// Kinds lists every kind this version knows, in the order above.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(payloads))
	for _, p := range payloads {
		kinds = append(kinds, p.kind)
	}
	return kinds
}

// payloads is a fixed table: which struct each kind is decoded into.
var payloads = [...]payload{
	payloadOf[RunStart](KindRunStart),
	payloadOf[RunEnd](KindRunEnd),
	payloadOf[Entry](KindEntry),
	payloadOf[SessionOpened](KindOpened),
	payloadOf[Session](KindSession),
	payloadOf[Probe](KindProbe),
	payloadOf[Control](KindControl),
	payloadOf[PodChange](KindPod),
	payloadOf[ContainerEnd](KindContainer),
	payloadOf[NodeChange](KindNode),
	payloadOf[Endpoints](KindEndpoints),
	payloadOf[Replicas](KindReplicas),
	payloadOf[AgentChange](KindAgent),
	payloadOf[Rollout](KindRollout),
	payloadOf[Fault](KindFault),
	payloadOf[Undo](KindUndo),
	payloadOf[Generator](KindGenerator),
	payloadOf[APIServer](KindAPIServer),
	payloadOf[Clock](KindClock),
	payloadOf[Audit](KindAudit),
	payloadOf[Recording](KindRecording),
	payloadOf[Metrics](KindMetrics),
	payloadOf[ProxyStop](KindProxyStop),
	payloadOf[Prometheus](KindPrometheus),
	payloadOf[Blind](KindBlind),
	payloadOf[Health](KindHealth),
	payloadOf[Overflow](KindOverflow),
	payloadOf[Closed](KindClosed),
}

// payload is one kind: cut decodes what our own recorder wrote, decode any JSON.
type payload struct {
	kind   Kind
	cut    func([]byte, *names) (Payload, bool)
	decode func([]byte) (Payload, error)
}

func payloadOf[P Payload](kind Kind) payload {
	fill := sync.OnceValue(func() filler { return fillerOf(reflect.TypeFor[P]()) })
	cut := func(raw []byte, n *names) (Payload, bool) {
		c, p := cutter{rest: raw, ok: true, names: n}, new(P)
		fill()(&c, reflect.ValueOf(p).Elem())
		return *p, c.ok && len(c.rest) == 0
	}
	return payload{kind, cut, decode[P]}
}

// decode uses the second version of encoding/json, which is more than twice
// as fast: reading is what check and report spend their time with.
func decode[P Payload](raw []byte) (Payload, error) {
	var p P
	err := jsonv2.Unmarshal(raw, &p, jsonv1.FormatDurationAsNano(true))
	return p, err
}

// Other is the payload of a kind this version does not know.
type Other struct {
	Name Kind
	Raw  json.RawMessage
}

// Kind is the name found in the file.
func (o Other) Kind() Kind { return o.Name }

// MarshalJSON gives back what was read.
func (o Other) MarshalJSON() ([]byte, error) {
	if len(o.Raw) == 0 {
		return []byte("null"), nil
	}
	return o.Raw, nil
}

// UnmarshalJSON decodes one line; an unknown kind becomes [Other], unknown
// fields of known kinds are ignored, so that newer files stay readable.
func (e *Event) UnmarshalJSON(line []byte) error {
	type plain Event
	head := struct {
		*plain
		Data json.RawMessage `json:"data"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	data, err := decodePayload(e.Kind, head.Data)
	if err != nil {
		return fmt.Errorf("payload of %s: %w", e.Kind, err)
	}
	e.Data = data
	return nil
}

// cutPayload decodes the payload of a known kind, the quick way where it can.
func cutPayload(kind Kind, raw []byte, n *names) (Payload, error) {
	for i := range payloads {
		if payloads[i].kind == kind {
			if p, ok := payloads[i].cut(raw, n); ok {
				return p, nil
			}
		}
	}
	return decodePayload(kind, raw)
}

func decodePayload(kind Kind, raw []byte) (Payload, error) {
	if kind == "" {
		return nil, fmt.Errorf("no kind")
	}
	for i := range payloads {
		if payloads[i].kind == kind {
			if len(raw) == 0 {
				return nil, fmt.Errorf("no data")
			}
			return payloads[i].decode(raw)
		}
	}
	return Other{Name: kind, Raw: bytes.Clone(raw)}, nil
}
