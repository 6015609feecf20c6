package embedded

import "time"

// What follows is the contract between this package (launcher and client, outside the cluster) and
// kubelite (PID 1 inside it). kubelite/boot has its own copy of these types: the two modules must not
// depend on each other, and TestE2E in test/e2e holds the copies together.
//
// Start: the launcher runs `kubelite init` in new namespaces with a BootSpec as one JSON document on
// stdin, standard output and error on the log, and the file descriptors FD… below. kubelite
//  1. marks every descriptor from 3 up close-on-exec (they were inherited, so they are not);
//  2. reads one byte from FDLifeline: LifelineGo says that the user namespace has its id maps. Until
//     then it may do nothing else. It is sent to root's clusters as well;
//  3. brings everything up, one Progress line for each change of a step, the last one
//     {"step":"ready","state":"done"} or a line with state "fail" and the reason in detail;
//  4. on LifelineDetach clears its parent death signal (prctl PR_SET_PDEATHSIG is kept per thread: it
//     must be the main thread), answers {"step":"detached","state":"done"} on FDProgress and closes
//     both; on end of file without that byte it exits at once.
//
// Outside the namespaces `kubelite images` is started first, with the other end of FDImages as its
// descriptor 3 and an ImagesSpec on stdin. It exits on end of file there: the end that says so is held
// by kubelite init alone.
//
// Control: one connection per request on the listener FDControl; one line of JSON each way unless an
// operation says more. File descriptors travel as SCM_RIGHTS with the first byte of the line they
// belong to. The peer must be uid 0 as seen from inside (SO_PEERCRED): in a user namespace that is the
// owner and nobody else, otherwise root.

// ProtocolVersion is raised when an older kubelite would misread what the launcher says.
const ProtocolVersion = 1

// Descriptors that `kubelite init` is started with.
const (
	FDControl  = 3 // listening unix stream socket, bound to ControlName in the caller's network namespace
	FDAPI      = 4 // listening TCP socket on 127.0.0.1:BootSpec.APIPort; kubelite relays it to the API server
	FDProgress = 5 // write end of a pipe: Progress as JSON lines
	FDLifeline = 6 // read end of a pipe: LifelineGo, perhaps LifelineDetach; end of file means exit
	FDImages   = 7 // unix stream socket pair to `kubelite images`
	FDLog      = 8 // log, an unnamed file opened for append; stays open as long as kubelite lives
)

// Bytes on FDLifeline.
const (
	LifelineGo     = 'g' // id maps are written: start
	LifelineDetach = 'd' // live on without the launcher
)

// BootSpec is the shape of a cluster as kubelite gets it on stdin.
type BootSpec struct {
	Protocol         int               `json:"protocol"`                   // ProtocolVersion
	Name             string            `json:"name"`                       // DNS label
	Nodes            int               `json:"nodes"`                      // real nodes, node1 … nodeN
	HollowNodes      int               `json:"hollowNodes"`                // hollow1 … hollowN
	NodeMonitorGrace string            `json:"nodeMonitorGrace,omitempty"` // time.Duration text, "40s"
	Images           []ImageSource     `json:"images,omitempty"`
	ImageCache       string            `json:"imageCache"` // directory, exists, outside path
	APIPort          int               `json:"apiPort"`    // the port that FDAPI listens on, never 0
	Labels           map[string]string `json:"labels,omitempty"`
}

// ImagesSpec is what `kubelite images` gets on stdin.
type ImagesSpec struct {
	Protocol   int    `json:"protocol"`
	Name       string `json:"name"`
	ImageCache string `json:"imageCache"`
}

// ImageSource says where the image that pods call Name comes from: "host:DIR", a path of an OCI layout
// or docker-save archive, or another registry reference.
type ImageSource struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// Progress is one line on FDProgress.
type Progress struct {
	Step   string        `json:"step"`  // "control plane", …; shown to the user
	State  ProgressState `json:"state"` // start, done or fail
	Detail string        `json:"detail,omitempty"`
}

// ProgressState is what happened to a step.
type ProgressState string

const (
	StepStarted ProgressState = "start"
	StepDone    ProgressState = "done"
	StepFailed  ProgressState = "fail"
)

// Steps with a meaning to the launcher; every other name is shown as it is.
const (
	StepCluster  = "cluster"  // fail: something died that no step was about
	StepReady    = "ready"    // done: the API server serves and all real nodes are Ready
	StepDetached = "detached" // done: the launcher may exit
)

// Operations of a Request.
const (
	OpStatus     = "status"     // → Response.Status
	OpKubeconfig = "kubeconfig" // → Response.Kubeconfig
	OpDial       = "dial"       // Network, Address → OK and one connected socket, or Error and Errno
	OpSpawn      = "spawn"      // Argv, Env, TTY, Dir and descriptors → PID, later a second line with Exit
	OpNode       = "node"       // Node, Action, From → OK or Error
	OpImage      = "image"      // Name, Source → OK or Error
	OpDown       = "down"       // → OK; then kubelite exits, and the kernel removes the cluster
)

// Request is the one line that a client sends.
type Request struct {
	Op string `json:"op"`

	Network string `json:"network,omitempty"` // dial: "tcp" or "udp"
	Address string `json:"address,omitempty"` // dial: host:port, host an IP or a name of the cluster's DNS

	// spawn runs Argv in the cluster's network namespace over the caller's own root filesystem. Three
	// descriptors (stdin, stdout, stderr) come with it, or with TTY one pty slave that becomes the
	// controlling terminal of a new session. Closing the connection kills the process group.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	TTY  bool     `json:"tty,omitempty"`
	Dir  string   `json:"dir,omitempty"`

	Node   string   `json:"node,omitempty"`
	Action string   `json:"action,omitempty"` // kill, pause, resume, partition, heal, restart
	From   []string `json:"from,omitempty"`   // partition: node names and "api"; empty means from all

	Name   string `json:"name,omitempty"`
	Source string `json:"source,omitempty"`
}

// Response is one line of an answer. Error is empty or a sentence for the user.
type Response struct {
	OK    bool   `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"` // of Error, where it has one

	Status     *Status `json:"status,omitempty"`
	Kubeconfig string  `json:"kubeconfig,omitempty"`
	PID        int     `json:"pid,omitempty"`  // spawn: as seen from inside
	Exit       *int    `json:"exit,omitempty"` // spawn: exit status, 128+n for signal n
}

// Status describes a cluster that is up.
type Status struct {
	Name        string       `json:"name"`
	Starting    bool         `json:"starting,omitempty"` // until {"step":"ready"} was said; control is served before
	PID         int          `json:"pid"`                // of kubelite init; the client replaces it by the pid the kernel tells
	Started     time.Time    `json:"started"`            // when kubelite init began
	Version     string       `json:"version"`            // of Kubernetes, v1.36.3
	Nodes       []NodeStatus `json:"nodes"`
	APIServer   string       `json:"apiServer"` // https://127.0.0.1:PORT, for use from outside
	ServiceCIDR string       `json:"serviceCIDR"`
	PodCIDR     string       `json:"podCIDR"`
	DNS         string       `json:"dns"` // address of the cluster's DNS Service
	Limits      Limits       `json:"limits"`
	Spec        BootSpec     `json:"spec"` // as it was given on stdin
}

// NodeStatus is one node as the supervisor knows it, which may be ahead of the API.
type NodeStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	PodCIDR string `json:"podCIDR"`
	State   string `json:"state"` // running, paused, killed or partitioned
	Hollow  bool   `json:"hollow"`
}

// Limits says whether memory and CPU limits of containers hold, and if not, why.
type Limits struct {
	MemoryCPU bool   `json:"memoryCPU"`
	Why       string `json:"why,omitempty"`
}
