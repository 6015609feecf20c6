package history

import "time"

// Generator is a sample of the load generator's own health, once a second.
type Generator struct {
	CPU        float64        `json:"cpuShare"` // of all cores, 0..1, since the last sample
	RSS        int64          `json:"rssBytes,omitempty"`
	Files      int            `json:"files,omitempty"` // open descriptors
	Goroutines int            `json:"goroutines,omitempty"`
	LateP99    time.Duration  `json:"lateP99Ns"` // start − due of sessions begun since the last sample
	LateMax    time.Duration  `json:"lateMaxNs"`
	Streams    []StreamSample `json:"streams,omitempty"`
}

// StreamSample is where one stream stands; counts are since the run began.
type StreamSample struct {
	Name    string  `json:"name"`
	Target  float64 `json:"target"`  // rate per second (open) or held (closed) aimed at now
	Due     uint64  `json:"due"`     // sessions that were due
	Started uint64  `json:"started"` // of these, begun
	Opened  uint64  `json:"opened"`  // of these, opened
	Ended   uint64  `json:"ended"`
	Capped  uint64  `json:"capped,omitempty"` // not begun, because maxHeld was reached: intended, not ours
	Missed  uint64  `json:"missed,omitempty"` // not begun, because the generator could not: ours
	Held    int     `json:"held"`             // open now
}

// Clock is a jump of the wall clock against the monotonic clock.
type Clock struct {
	Jump time.Duration `json:"jumpNs"` // forward positive
}

// Audit is an audit event of Teleport about a session, as the audit log returned it.
type Audit struct {
	Event         string    `json:"event"` // session.start, session.end, session.upload, …
	Code          string    `json:"code,omitempty"`
	ServerSession string    `json:"serverSession"`
	AgentUUID     string    `json:"agentUuid,omitempty"`
	User          string    `json:"user,omitempty"`
	Time          time.Time `json:"time"` // by Teleport's wall clock
}

// RecordingClass is what became of a recording.
type RecordingClass string

// The recording classes, as DESIGN.md defines them.
const (
	RecComplete  RecordingClass = "complete"
	RecTruncated RecordingClass = "truncated"
	RecGap       RecordingClass = "gap"
	RecNoEnd     RecordingClass = "noEnd"
	RecMissing   RecordingClass = "missing"
	RecLate      RecordingClass = "late"
	RecPending   RecordingClass = "pending"
)

// RecordingClasses lists the classes in the order reports show them.
func RecordingClasses() []RecordingClass {
	return []RecordingClass{RecComplete, RecTruncated, RecGap, RecNoEnd, RecMissing, RecLate, RecPending}
}

// Recording is what was found about the recording of one session.
type Recording struct {
	Session       string         `json:"session"` // Session.ID
	ServerSession string         `json:"serverSession"`
	Class         RecordingClass `json:"class"`
	Mode          string         `json:"mode,omitempty"`    // node, node-sync, proxy, proxy-sync
	Storage       string         `json:"storage,omitempty"` // of the holder: emptyDir, pvc, …
	Holder        PodRef         `json:"holder,omitzero"`   // pod that held it before upload
	HolderGone    bool           `json:"holderGone,omitempty"`

	Started  bool `json:"startEvent"`
	Ended    bool `json:"endEvent"`
	Uploaded bool `json:"uploadEvent"`

	Expected uint64      `json:"expectedLines"` // acknowledged by the server
	Found    uint64      `json:"foundLines"`
	Missing  [][2]uint64 `json:"missingRanges,omitempty"`  // inclusive
	Tail     uint64      `json:"tailLines,omitempty"`      // missing at the end
	Repeated int         `json:"repeatedEvents,omitempty"` // that came more than once; counted once
	// Settled is from the session's end until the recording was complete.
	Settled time.Duration `json:"settledNs,omitempty"`
	Waited  time.Duration `json:"waitedNs,omitempty"` // how long was waited in all
	// NotRead: the audit log was looked at, the recording not (sampling).
	NotRead bool   `json:"notRead,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Metrics is one scrape of chosen series of one pod.
type Metrics struct {
	Pod    PodRef             `json:"pod"`
	Values map[string]float64 `json:"values,omitempty"` // by series name, labels as in the exposition format
	Error  string             `json:"error,omitempty"`
}

// Overflow says that events came faster than they could be written and were
// left out: how many of which kind. The history is then not complete.
type Overflow struct {
	Lost map[Kind]uint64 `json:"lost"`
}

// Closed is the last event. A history without it is truncated.
type Closed struct {
	Events uint64          `json:"events"` // before this one
	ByKind map[Kind]uint64 `json:"byKind"`
	Lost   map[Kind]uint64 `json:"lost,omitempty"` // sum of all Overflow
}

// Kind of each payload.
func (Generator) Kind() Kind { return KindGenerator }
func (Clock) Kind() Kind     { return KindClock }
func (Audit) Kind() Kind     { return KindAudit }
func (Recording) Kind() Kind { return KindRecording }
func (Metrics) Kind() Kind   { return KindMetrics }
func (Overflow) Kind() Kind  { return KindOverflow }
func (Closed) Kind() Kind    { return KindClosed }
