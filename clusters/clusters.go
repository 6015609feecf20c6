// Package clusters says what the rest of Shakedown needs of a Kubernetes to work on: a Provider that
// makes one, and a Cluster to reach it by. The providers are the packages below this one.
//
// A cluster is found again by what it is (a socket name, a label), never by a file that we wrote: a
// file can be lost or lie, and then something is left behind.
package clusters

import (
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Provider makes clusters and finds them again. All methods may be called at any time, by any number of
// processes at once.
type Provider interface {
	// Up returns the cluster that spec describes, ready to use: the API serves and every real node is
	// Ready. One that is up already with the same shape is returned as it is; with another shape the
	// error is ErrDifferent. If Up fails or ctx ends, nothing of the cluster is left.
	Up(ctx context.Context, spec Spec) (Cluster, error)
	// Down removes the cluster and returns when nothing of it is left. That there is none is no error.
	Down(ctx context.Context, name string) error
	// List returns the caller's clusters in the order of their names, also those still starting.
	List(ctx context.Context) ([]Cluster, error)
}

// Cluster is a Kubernetes to work on. It is safe for use by many goroutines.
type Cluster interface {
	// Name is the name within its provider.
	Name() string
	// RESTConfig has administrator's rights and works from this process.
	RESTConfig(ctx context.Context) (*rest.Config, error)
	// Kubeconfig is the same as a file for kubectl and helm, in YAML. It holds a private key: mode 0600.
	Kubeconfig(ctx context.Context) ([]byte, error)
	// DialContext connects from inside the cluster's network: to pods and Services by their own
	// addresses, or by names of the cluster's DNS ("proxy.teleport.svc:443"). Networks are tcp and udp.
	// Errors are *net.OpError and carry the errno, so that errors.Is(err, syscall.ECONNREFUSED) works.
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// Facts are asked anew at each call.
	Facts(ctx context.Context) (Facts, error)
}

// NodeOperator is what a Cluster also is (found by assertion) if it can do to a node what a data centre
// does to it. A node is named as in the API.
type NodeOperator interface {
	// Available is nil, or says why this cluster cannot do the action on this machine.
	Available(action NodeAction) error
	// Kill ends kubelet and all containers at once, as a power cut does.
	Kill(ctx context.Context, node string) error
	// Pause stops them from running, and Resume lets them go on: connections stay, clocks do not.
	Pause(ctx context.Context, node string) error
	Resume(ctx context.Context, node string) error
	// Partition drops all packets between the node (kubelet and pods) and the others, both ways. Others
	// are node names and "api"; none means all of them. Heal ends it.
	Partition(ctx context.Context, node string, from ...string) error
	Heal(ctx context.Context, node string) error
	// Restart boots a node anew, running or killed: its pods are gone, its volumes stay.
	Restart(ctx context.Context, node string) error
}

// ImageAdder is what a Cluster also is if images can be given to it while it is up.
type ImageAdder interface {
	AddImage(ctx context.Context, image Image) error
}

// Preloader is what a Cluster also is if its nodes must be given images by their whole names before pods name them.
// Preload gives the nodes those of the names that match the images of the Spec and of AddImage.
type Preloader interface {
	Preload(ctx context.Context, names []string) error
}

// Ephemeral is what a Cluster also is if it may outlive its maker and says whether it should have.
type Ephemeral interface {
	// MadeFor is the value of the label of the Spec, and whether the cluster was to go with who made it (no Detach).
	MadeFor(label string) (value string, ephemeral bool)
}

// Gatewayed is what a Cluster also is if load may come from a pod in it that dials for this process.
type Gatewayed interface {
	// OpenGateway starts it in a namespace, with these labels, if the cluster was told to have one. Before, such a cluster
	// connects to nothing. lost is told of each time that all connections through it broke. It goes with what carries the labels.
	OpenGateway(ctx context.Context, namespace string, labels map[string]string, lost func(error)) error
}

// Reacher is what a Cluster also is if there are several ways to its pods.
type Reacher interface {
	// Reach is Facts.Reach, without asking anybody.
	Reach() string
}

// Spawner is what a Cluster also is if programs of this machine can run in its network.
type Spawner interface {
	// Spawn runs the command to its end and returns its exit status (128+n for signal n). The command is
	// killed when ctx ends or this process dies.
	Spawn(ctx context.Context, cmd Command) (exit int, err error)
}

// Overseer is what a Spawner also is if the programs that it runs may see, and stop, what its nodes run.
type Overseer interface {
	Spawner
	// Oversees is nil, or says why programs in the network of this cluster do not see the processes of its nodes.
	Oversees() error
}

// FindContainersBy is a variable in the environment of the programs that an Overseer runs: the file of a process in
// /proc that has the IDs of the containers which it is in, and of no others. Not set, it is mountinfo. On kind that
// would be wrong, because a node's own processes see the mounts of all its containers.
const FindContainersBy = "SHAKEDOWN_FIND_CONTAINERS_BY"

// Owner is what a Cluster also is if this process may hold it, that is, after Up without Detach.
type Owner interface {
	// Done is closed when the cluster is gone, whoever ended it. It is nil for a cluster that was only found.
	Done() <-chan struct{}
}

// NodeAction is something that a NodeOperator does, by its name on the command line.
type NodeAction string

// The node actions.
const (
	NodeKill      NodeAction = "kill"
	NodePause     NodeAction = "pause"
	NodeResume    NodeAction = "resume"
	NodePartition NodeAction = "partition"
	NodeHeal      NodeAction = "heal"
	NodeRestart   NodeAction = "restart"
)

// NodeActions are all of them, in the order of a help text.
func NodeActions() []NodeAction {
	return []NodeAction{NodeKill, NodePause, NodeResume, NodePartition, NodeHeal, NodeRestart}
}

// Facts are what is known about a cluster from outside Kubernetes.
type Facts struct {
	Provider    string    `json:"provider"`
	Name        string    `json:"name"`
	Owned       bool      `json:"owned"`             // made by Shakedown, so that it may take it down
	PID         int       `json:"pid,omitempty"`     // of its first process, if it is one of this machine
	Started     time.Time `json:"started,omitzero"`  // zero if unknown
	Version     string    `json:"version,omitempty"` // of Kubernetes: v1.36.3
	APIServer   string    `json:"apiServer"`         // URL that works from this machine
	PodCIDR     string    `json:"podCIDR,omitempty"`
	ServiceCIDR string    `json:"serviceCIDR,omitempty"`
	DNS         string    `json:"dns,omitempty"`   // address of the cluster's DNS
	Reach       string    `json:"reach,omitempty"` // how pods are reached, where there are several ways: direct, port-forward, gateway; empty: not known yet
	Nodes       []Node    `json:"nodes"`
	Limits      Limits    `json:"limits"`
}

// Node is a node as its provider sees it, which may be ahead of the API.
type Node struct {
	Name    string    `json:"name"`
	Address string    `json:"address,omitempty"`
	PodCIDR string    `json:"podCIDR,omitempty"`
	State   NodeState `json:"state,omitempty"` // empty if the provider cannot tell
	Hollow  bool      `json:"hollow,omitempty"`
}

// NodeState is what was last done to a node.
type NodeState string

// The states of a node.
const (
	NodeRunning     NodeState = "running"
	NodePaused      NodeState = "paused"
	NodeKilled      NodeState = "killed"
	NodePartitioned NodeState = "partitioned"
)

// Limits says whether memory and CPU limits of containers hold on this cluster, and if not, why.
type Limits struct {
	Hold bool   `json:"hold"`
	Why  string `json:"why,omitempty"`
}

// Step is the progress of something slow, for a person to watch.
type Step struct {
	Name   string // "control plane"
	State  StepState
	Detail string
}

// StepState is what happened to a Step.
type StepState string

// A step begins, and ends in one of two ways; a note is a line of its own.
const (
	StepStarted StepState = "start"
	StepDone    StepState = "done"
	StepFailed  StepState = "fail"
	StepNote    StepState = "note"
)

// Errors of providers, to be found with errors.Is.
var (
	ErrNotFound  = errors.New("no such cluster")
	ErrDifferent = errors.New("already up with another shape")
	// ErrUnsupported means that this provider cannot work on this machine at all.
	ErrUnsupported = errors.New("not supported on this machine")
)

// Find returns the cluster of that name, or an error that is ErrNotFound.
func Find(ctx context.Context, p Provider, name string) (Cluster, error) {
	all, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Name() == name {
			return c, nil
		}
	}
	return nil, &NameError{Name: name, Err: ErrNotFound}
}

// NameError is an error about the cluster of that name.
type NameError struct {
	Name string
	Err  error
}

func (e *NameError) Error() string { return "cluster " + e.Name + ": " + e.Err.Error() }
func (e *NameError) Unwrap() error { return e.Err }
