package boot

import "time"

// The types below are this module's copy of clusters/embedded/protocol.go,
// where the protocol is described. The two modules must not depend on each
// other (one carries Kubernetes, the other must stay installable), so the JSON
// is the contract and the end-to-end tests hold the copies together.

const protocolVersion = 1

const (
	fdControl  = 3
	fdAPI      = 4
	fdProgress = 5
	fdLifeline = 6
	fdImages   = 7
	fdLog      = 8
)

const (
	lifelineGo     = 'g'
	lifelineDetach = 'd'
)

// Spec is the shape of a cluster, given on stdin.
type Spec struct {
	Protocol         int               `json:"protocol"`
	Name             string            `json:"name"`
	Nodes            int               `json:"nodes"`
	HollowNodes      int               `json:"hollowNodes"`
	NodeMonitorGrace string            `json:"nodeMonitorGrace,omitempty"`
	Images           []ImageSource     `json:"images,omitempty"`
	ImageCache       string            `json:"imageCache"`
	APIPort          int               `json:"apiPort"`
	Labels           map[string]string `json:"labels,omitempty"`
}

// ImageSource says where the image that pods call Name comes from.
type ImageSource struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

type progressLine struct {
	Step   string `json:"step"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

const (
	stepStarted  = "start"
	stepDone     = "done"
	stepFailed   = "fail"
	stepReady    = "ready"
	stepDetached = "detached"
)

type request struct {
	Op      string   `json:"op"`
	Network string   `json:"network,omitempty"`
	Address string   `json:"address,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Env     []string `json:"env,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Node    string   `json:"node,omitempty"`
	Action  string   `json:"action,omitempty"`
	From    []string `json:"from,omitempty"`
	Name    string   `json:"name,omitempty"`
	Source  string   `json:"source,omitempty"`
}

type response struct {
	OK         bool    `json:"ok,omitempty"`
	Error      string  `json:"error,omitempty"`
	Errno      int     `json:"errno,omitempty"`
	Status     *status `json:"status,omitempty"`
	Kubeconfig string  `json:"kubeconfig,omitempty"`
	PID        int     `json:"pid,omitempty"`
	Exit       *int    `json:"exit,omitempty"`
}

type status struct {
	Name        string       `json:"name"`
	PID         int          `json:"pid"`
	Started     time.Time    `json:"started"`
	Starting    bool         `json:"starting,omitempty"`
	Version     string       `json:"version"`
	Nodes       []nodeStatus `json:"nodes"`
	APIServer   string       `json:"apiServer"`
	ServiceCIDR string       `json:"serviceCIDR"`
	PodCIDR     string       `json:"podCIDR"`
	DNS         string       `json:"dns"`
	Limits      limits       `json:"limits"`
	Spec        Spec         `json:"spec"`
}

type nodeStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	PodCIDR string `json:"podCIDR"`
	State   string `json:"state"`
	Hollow  bool   `json:"hollow"`
}

type limits struct {
	MemoryCPU bool   `json:"memoryCPU"`
	Why       string `json:"why,omitempty"`
}
