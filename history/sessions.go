package history

import "time"

// Class is how a session ended; every session has exactly one.
type Class string

// The end classes, as DESIGN.md defines them.
const (
	Clean      Class = "clean"
	Refused    Class = "refused"
	Dropped    Class = "dropped"
	Stalled    Class = "stalled"
	Unfinished Class = "unfinished"
	Ours       Class = "ours"
)

// Classes lists the end classes in the order reports show them.
func Classes() []Class { return []Class{Clean, Refused, Dropped, Stalled, Unfinished, Ours} }

// Outcome is what the event of a session that ended so says: ok for clean,
// unknown where it was not the system that ended it, else failed.
func (c Class) Outcome() Outcome {
	switch c {
	case Clean:
		return OK
	case Unfinished, Ours:
		return Unknown
	}
	return Failed
}

// Phase is a step of opening a session.
type Phase string

// The phases of SSH through a proxy, in their order; Kubernetes sessions have
// connect, tls, upgrade, stream.
const (
	PhaseResolve  Phase = "resolve"
	PhaseConnect  Phase = "connect"
	PhaseTLS      Phase = "tls"
	PhaseSSHProxy Phase = "ssh-proxy"
	PhaseRoute    Phase = "route"
	PhaseSSHNode  Phase = "ssh-node"
	PhaseShell    Phase = "shell"
	PhaseUpgrade  Phase = "upgrade"
	PhaseStream   Phase = "stream"
)

// PodRef names a pod for good: names come back after a rollout, UIDs do not.
type PodRef struct {
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Component string `json:"component,omitempty"` // auth, proxy, agent, …
	Node      string `json:"node,omitempty"`
	Revision  string `json:"revision,omitempty"` // pod-template-hash or controller-revision-hash
}

// Agent is the Teleport node a session ended up on.
type Agent struct {
	UUID string `json:"uuid,omitempty"`
	Host string `json:"host,omitempty"`
	Pod  PodRef `json:"pod,omitzero"`
}

// SessionOpened is written when a session is open and its first answer has
// come. One without a later Session of the same ID was cut off by a crash of
// the generator: unfinished, with the history truncated.
type SessionOpened struct {
	ID            string        `json:"id"`
	Stream        string        `json:"stream"`
	Type          string        `json:"type,omitempty"` // as in Session
	Behaviour     string        `json:"behaviour,omitempty"`
	Due           time.Duration `json:"dueNs"`
	Start         time.Duration `json:"startNs"`
	Open          time.Duration `json:"openNs"`
	Proxy         PodRef        `json:"proxy,omitzero"`
	Agent         Agent         `json:"agent,omitzero"`
	User          string        `json:"user,omitempty"`
	ServerSession string        `json:"serverSession,omitempty"`
	Recorded      bool          `json:"recorded,omitempty"` // a recording is expected
}

// Session is the ledger's last word on one session: exactly one for each that
// was due, also for those that were never started (class ours).
type Session struct {
	ID        string `json:"id"`     // unique in the run: stream/number
	Stream    string `json:"stream"` // as in the scenario
	Type      string `json:"type"`   // ssh, kube-exec, kube-watch, kube-port-forward, kube-api
	Behaviour string `json:"behaviour"`
	User      string `json:"user,omitempty"`

	Due   time.Duration `json:"dueNs"`             // when it should have begun
	Start time.Duration `json:"startNs,omitempty"` // when it did; 0: never
	Open  time.Duration `json:"openNs,omitempty"`  // when it was open; 0: never. Open latency is Open − Due
	End   time.Duration `json:"endNs"`             // when it ended, or was given up
	Want  time.Duration `json:"wantNs,omitempty"`  // how long its script was to last, once open

	Phases []PhaseTime `json:"phases,omitempty"` // in order; the last may have failed
	Proxy  PodRef      `json:"proxy,omitzero"`   // pod that carried it; empty UID: not known
	// ProxyHow says how the proxy became known: dialled (by its own address),
	// server (it said so), conntrack, service (only the Service is known).
	ProxyHow string   `json:"proxyHow,omitempty"`
	Hops     []PodRef `json:"hops,omitempty"` // further pods on the path: peer proxy, auth
	Agent    Agent    `json:"agent,omitzero"`
	Local    string   `json:"local,omitempty"`  // ip:port
	Remote   string   `json:"remote,omitempty"` // ip:port

	ServerSession string `json:"serverSession,omitempty"` // SSH_SESSION_ID: the join key to audit and recording
	Recorded      bool   `json:"recorded,omitempty"`      // a recording is expected
	Lines         Lines  `json:"lines,omitzero"`
	Answers       uint64 `json:"answers,omitempty"` // API calls that were answered, or changes that a watch told
	BytesSent     int64  `json:"bytesSent,omitempty"`
	BytesReceived int64  `json:"bytesReceived,omitempty"`
	Gaps          []Gap  `json:"gaps,omitempty"` // silences longer than Bounds.Gap, in order

	Class  Class  `json:"class"`
	Failed Phase  `json:"failedPhase,omitempty"` // refused: the phase it failed in
	Cut    Cut    `json:"cut,omitempty"`         // dropped, refused: how the end looked from here
	Exit   *int   `json:"exit,omitempty"`        // exit status, where one was seen
	Reason string `json:"reason,omitempty"`      // the error or server message, in its own words
	// LastHeard is when the server last said anything; for a drop, the moment
	// it was cut lies between LastHeard and End.
	LastHeard time.Duration `json:"lastHeardNs,omitempty"`
}

// PhaseTime is how long one phase of opening took.
type PhaseTime struct {
	Phase Phase         `json:"phase"`
	Took  time.Duration `json:"tookNs"`
}

// Lines accounts for the numbered, checksummed lines that a session typed.
type Lines struct {
	Token string `json:"token,omitempty"` // in every line, to find them in a recording
	Sent  uint64 `json:"sent"`            // lines 1..Sent were typed
	// Acked is the number of lines the server gave back whole, Ranges which
	// (inclusive, ascending); Bad those that came back wrong.
	Acked  uint64      `json:"acked"`
	Ranges [][2]uint64 `json:"ranges,omitempty"`
	Bad    uint64      `json:"bad,omitempty"`
	// Sum is the CRC-32C of all acknowledged lines one after another.
	Sum uint32 `json:"sum,omitempty"`
}

// Gap is a silence of the server while something was expected from it.
type Gap struct {
	From time.Duration `json:"fromNs"`
	Took time.Duration `json:"tookNs"`
}

// Cut is how the end of a session looked from the client.
type Cut string

// The cuts.
const (
	CutReset     Cut = "reset"          // TCP RST, broken pipe
	CutEOF       Cut = "eof"            // connection closed without exit status
	CutChannel   Cut = "channel-closed" // channel closed without exit status, connection alive
	CutKeepalive Cut = "keepalive"      // no answer within the keep-alive bound
	CutMessage   Cut = "server-message" // the server said that it ends the session
	CutTimeout   Cut = "timeout"        // a phase of opening ran out of time
	CutDenied    Cut = "denied"         // access or authentication refused
	CutProtocol  Cut = "protocol"       // an answer that makes no sense
	CutUnrouted  Cut = "unrouted"       // the proxy found no way to the node
	CutConnect   Cut = "connect"        // connection refused, no route to host
)

// NoAgent is the error of what was not tried because no agent was there to be dialled: it says nothing of a proxy.
const NoAgent = "no agent can be dialled"

// Probe is one canary through one pod, by its own address.
type Probe struct {
	Pod    PodRef        `json:"pod"`
	Took   time.Duration `json:"tookNs"`
	Failed Phase         `json:"failedPhase,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Control is one canary of the control arm: straight to a node, beside Teleport.
type Control struct {
	Target string `json:"target"`
	// Handshake is three connections of its own in a row, each as far as the node's certificate: all that a node computes
	// without asking anybody. Otherwise it is a line of a session that is held.
	Handshake bool          `json:"handshake,omitempty"`
	Took      time.Duration `json:"tookNs"`
	Error     string        `json:"error,omitempty"`
}

// Kind of each payload.
func (SessionOpened) Kind() Kind { return KindOpened }
func (Session) Kind() Kind       { return KindSession }
func (Probe) Kind() Kind         { return KindProbe }
func (Control) Kind() Kind       { return KindControl }
