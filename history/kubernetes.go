package history

import "time"

// PodState is what became of a pod.
type PodState string

// The pod states. Created is also written for pods found at the run's start.
const (
	PodCreated  PodState = "created"
	PodReady    PodState = "ready"
	PodUnready  PodState = "unready"
	PodDeleting PodState = "deleting" // deletion timestamp set; Grace says how long it has
	PodEvicted  PodState = "evicted"
	PodFailed   PodState = "failed"    // phase Failed
	PodDone     PodState = "succeeded" // phase Succeeded
	PodStuck    PodState = "stuck"     // pending or waiting with a reason
	PodGone     PodState = "gone"      // object removed
)

// PodChange is a change of one pod, as a watch saw it. Event.Subject is the pod's name.
type PodChange struct {
	Pod     PodRef   `json:"pod"`
	State   PodState `json:"state"`
	Version string   `json:"version,omitempty"` // of the program, from the image or label
	IP      string   `json:"ip,omitempty"`
	// Grace is the deletion grace period; meaningful in state deleting only.
	Grace  time.Duration `json:"graceNs,omitempty"`
	Reason string        `json:"reason,omitempty"` // ImagePullBackOff, Unschedulable, Evicted, …
	Detail string        `json:"detail,omitempty"`
}

// ContainerEnd is a container that terminated.
type ContainerEnd struct {
	Pod       PodRef    `json:"pod"`
	Container string    `json:"container"`
	Init      bool      `json:"init,omitempty"`
	Exit      int       `json:"exit"`
	Signal    int       `json:"signal,omitempty"` // 0: not by a signal
	Reason    string    `json:"reason,omitempty"` // Completed, Error, OOMKilled
	Started   time.Time `json:"started,omitzero"` // by the kubelet, wall clock
	Finished  time.Time `json:"finished,omitzero"`
	Restarts  int       `json:"restarts,omitempty"`
}

// NodeState is what became of a node.
type NodeState string

// The node states. Seen is written for nodes found at the run's start.
const (
	NodeSeen       NodeState = "seen"
	NodeReady      NodeState = "ready"
	NodeNotReady   NodeState = "not-ready"
	NodeCordoned   NodeState = "cordoned"
	NodeUncordoned NodeState = "uncordoned"
	NodeTainted    NodeState = "tainted"
	NodeUntainted  NodeState = "untainted"
	NodeGone       NodeState = "gone"
)

// NodeChange is a change of one node, as a watch saw it.
type NodeChange struct {
	Node   string    `json:"node"`
	UID    string    `json:"uid,omitempty"`
	State  NodeState `json:"state"`
	Reason string    `json:"reason,omitempty"`
}

// Endpoints is the whole of what stands behind one Service after a change.
type Endpoints struct {
	Service   string   `json:"service"`
	Component string   `json:"component,omitempty"`
	Ready     []PodRef `json:"ready"`
	// Terminating pods still serve; the Service may fall back to them.
	Terminating []PodRef `json:"terminating,omitempty"`
	NotReady    []PodRef `json:"notReady,omitempty"`
}

// Replicas are the counts of one component's Deployment or StatefulSet after a change.
type Replicas struct {
	Component string `json:"component"`
	Desired   int    `json:"desired"`
	Ready     int    `json:"ready"`
	Updated   int    `json:"updated"`
	Available int    `json:"available"`
	Total     int    `json:"total"`
	Revision  string `json:"revision,omitempty"` // template hash the controller wants
}

// AgentChange is an agent joining, leaving or changing its tunnels.
type AgentChange struct {
	Agent   Agent  `json:"agent"`
	State   string `json:"state"` // registered, gone, connected, disconnected, listed
	Tunnels int    `json:"tunnels,omitempty"`
	Proxy   PodRef `json:"proxy,omitzero"`
}

// AgentListed is the state of an agent that Teleport still lists though its pod is gone.
const AgentListed = "listed"

// APIServer is a look at the API server that failed, or the first that
// succeeded again.
type APIServer struct {
	Up    bool          `json:"up"`
	Since time.Duration `json:"sinceNs"` // last moment it was seen in the other state
	Error string        `json:"error,omitempty"`
}

// Kind of each payload.
func (PodChange) Kind() Kind    { return KindPod }
func (ContainerEnd) Kind() Kind { return KindContainer }
func (NodeChange) Kind() Kind   { return KindNode }
func (Endpoints) Kind() Kind    { return KindEndpoints }
func (Replicas) Kind() Kind     { return KindReplicas }
func (AgentChange) Kind() Kind  { return KindAgent }
func (APIServer) Kind() Kind    { return KindAPIServer }
