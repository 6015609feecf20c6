package clusters

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultName is what a cluster is called if nobody says otherwise.
const DefaultName = "shakedown"

// Spec is the shape of a cluster.
type Spec struct {
	Name             string        // DNS label; DefaultName if empty
	Nodes            int           // real nodes, at least one
	HollowNodes      int           // nodes of kubelet code over a fake runtime, tainted so that nothing lands there unasked
	NodeMonitorGrace time.Duration // how long a silent node is believed alive; 0 leaves it to Kubernetes
	APIPort          int           // on 127.0.0.1; 0 takes any free one
	Images           []Image
	Labels           map[string]string // of the cluster, free for the caller
	// Detach lets the cluster outlive the caller. Without it the cluster is gone when this process is.
	Detach bool
}

// Image says where the image that pods call Name comes from.
type Image struct {
	Name   string
	Source string // host:DIR, a path of an OCI layout or docker-save archive, or a registry reference
}

// Command is a program to run in a cluster's network.
type Command struct {
	Argv []string // never empty
	Env  []string // as os.Environ; nil is the environment of this process
	Dir  string   // empty: the working directory of this process
	// TTY gives the program a terminal of its own, which is copied from and to Stdin and Stdout.
	TTY                   bool
	Stdin, Stdout, Stderr *os.File // nil is /dev/null
}

const (
	maxNodes       = 64   // real ones: each is a kubelet of 160 MB
	maxHollowNodes = 5000 // what Kubernetes itself is tested with
	minGrace       = 3 * time.Second
)

// Validate returns every problem of the spec at once, or nil.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := ValidateName(s.Name); err != nil {
		errs = append(errs, err)
	}
	if s.Nodes < 1 || s.Nodes > maxNodes {
		bad("%d nodes: want 1 to %d; more can be hollow nodes", s.Nodes, maxNodes)
	}
	if s.HollowNodes < 0 || s.HollowNodes > maxHollowNodes {
		bad("%d hollow nodes: want 0 to %d", s.HollowNodes, maxHollowNodes)
	}
	if s.NodeMonitorGrace != 0 && s.NodeMonitorGrace < minGrace {
		bad("node monitor grace %s: want at least %s, or a node that is merely late counts as lost", s.NodeMonitorGrace, minGrace)
	}
	if s.APIPort < 0 || s.APIPort > 65535 {
		bad("API port %d: want 0 (any free one) to 65535", s.APIPort)
	}
	seen := map[string]bool{}
	for _, image := range s.Images {
		if image.Name == "" || image.Source == "" {
			bad("image %q from %q: want NAME=SOURCE", image.Name, image.Source)
		} else if seen[image.Name] {
			bad("image %s is given twice", image.Name)
		}
		seen[image.Name] = true
	}
	return errors.Join(errs...)
}

// ValidateName is nil if name can be the name of a cluster: a DNS label.
func ValidateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("cluster name %q: want at most 63 of a–z, 0–9 and -, with a letter or digit at both ends", name)
	}
	return nil
}

// ParseImage reads NAME=SOURCE as on the command line.
func ParseImage(s string) (Image, error) {
	name, source, ok := strings.Cut(s, "=")
	if !ok || name == "" || source == "" {
		return Image{}, fmt.Errorf("image %q: want NAME=SOURCE, SOURCE being host:DIR, an archive, an OCI layout or a registry reference", s)
	}
	return Image{Name: name, Source: source}, nil
}
