package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/clusters"
)

// Cluster is a client of one kubelite. Its zero cost: no connection is kept between calls.
type Cluster struct {
	name   string
	uid    int
	socket string
	held   *held // nil if this process did not start it
}

var (
	_ clusters.Cluster      = (*Cluster)(nil)
	_ clusters.NodeOperator = (*Cluster)(nil)
	_ clusters.ImageAdder   = (*Cluster)(nil)
	_ clusters.Overseer     = (*Cluster)(nil)
	_ clusters.Owner        = (*Cluster)(nil)
)

func open(uid int, name string) *Cluster {
	return &Cluster{name: name, uid: uid, socket: ControlName(uid, name)}
}

// Name is the name that it was brought up with.
func (c *Cluster) Name() string { return c.name }

// Done is closed when a cluster that this process holds is gone, and nil for every other one.
func (c *Cluster) Done() <-chan struct{} {
	if c.held == nil {
		return nil
	}
	return c.held.done
}

// Facts asks kubelite for the state of its nodes.
func (c *Cluster) Facts(ctx context.Context) (clusters.Facts, error) {
	s, err := c.status(ctx)
	if err != nil {
		return clusters.Facts{}, err
	}
	facts := clusters.Facts{
		Provider: "embedded", Name: c.name, Owned: true, PID: s.PID, Started: s.Started, Version: s.Version,
		APIServer: s.APIServer, PodCIDR: s.PodCIDR, ServiceCIDR: s.ServiceCIDR, DNS: s.DNS,
		Limits: clusters.Limits{Hold: s.Limits.MemoryCPU, Why: s.Limits.Why},
	}
	for _, n := range s.Nodes {
		facts.Nodes = append(facts.Nodes, clusters.Node{
			Name: n.Name, Address: n.Address, PodCIDR: n.PodCIDR, State: clusters.NodeState(n.State), Hollow: n.Hollow,
		})
	}
	return facts, nil
}

// Kubeconfig is an administrator's, with the API server on 127.0.0.1.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	answer, _, err := c.ask(ctx, Request{Op: OpKubeconfig})
	if err != nil {
		return nil, err
	}
	return []byte(answer.Kubeconfig), nil
}

// RESTConfig is Kubeconfig for client-go.
func (c *Cluster) RESTConfig(ctx context.Context) (*rest.Config, error) {
	text, err := c.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", c.name, err)
	}
	return config, nil
}

// DialContext has kubelite connect inside the cluster's network and takes over the socket: no byte of
// the connection passes through kubelite.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: inside{network, address}, Err: err}
}

func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w, err := dialWire(ctx, c.socket, c.uid)
	if err != nil {
		return nil, c.explain(err)
	}
	defer w.Close()
	stop := w.until(ctx)
	defer stop()
	if err := w.send(Request{Op: OpDial, Network: network, Address: address}); err != nil {
		return nil, ended(ctx, err)
	}
	var answer Response
	if err := w.receive(&answer); err != nil {
		return nil, ended(ctx, err)
	}
	if err := answer.err(OpDial); err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return nil, os.NewSyscallError("connect", errno)
		}
		return nil, err
	}
	return w.takeConn()
}

// inside is an address of the cluster's network.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }

// AddImage registers a source for an image name, for pods that start from now on.
func (c *Cluster) AddImage(ctx context.Context, image clusters.Image) error {
	_, _, err := c.ask(ctx, Request{Op: OpImage, Name: image.Name, Source: image.Source})
	return err
}

func (c *Cluster) status(ctx context.Context) (*Status, error) {
	answer, pid, err := c.ask(ctx, Request{Op: OpStatus})
	if err != nil {
		return nil, err
	}
	if answer.Status == nil {
		return nil, fmt.Errorf("cluster %s: an answer without status; is this kubelite of another version?", c.name)
	}
	if pid != 0 {
		answer.Status.PID = pid
	}
	return answer.Status, nil
}

// ask does a request with one answer, and returns the pid that the kernel saw answering.
func (c *Cluster) ask(ctx context.Context, r Request) (Response, int, error) {
	w, err := dialWire(ctx, c.socket, c.uid)
	if err != nil {
		return Response{}, 0, c.explain(err)
	}
	defer w.Close()
	stop := w.until(ctx)
	defer stop()
	var answer Response
	if err := w.send(r); err != nil {
		return Response{}, 0, &clusters.NameError{Name: c.name, Err: ended(ctx, err)}
	}
	if err := w.receive(&answer); err != nil {
		return Response{}, 0, &clusters.NameError{Name: c.name, Err: ended(ctx, err)}
	}
	if err := answer.err(r.Op); err != nil {
		return Response{}, w.pid, &clusters.NameError{Name: c.name, Err: err}
	}
	return answer, w.pid, nil
}

// explain turns a failed connection to the control socket into what it means.
func (c *Cluster) explain(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = clusters.ErrNotFound
	}
	return &clusters.NameError{Name: c.name, Err: err}
}

// errWentDown is a connection that ended without an answer: only the end of kubelite does that.
var errWentDown = fmt.Errorf("%w any more: it went down just now", clusters.ErrNotFound)

// ended prefers what happened to what the connection saw of it.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errWentDown
	}
	return err
}

// sameShape is nil if a cluster that is up is what want describes, or names what differs.
func sameShape(have, want BootSpec) error {
	var differs []string
	diff := func(what string, a, b any) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			differs = append(differs, fmt.Sprintf("%s is %v, not %v", what, a, b))
		}
	}
	diff("nodes", have.Nodes, want.Nodes)
	diff("hollow nodes", have.HollowNodes, want.HollowNodes)
	if want.NodeMonitorGrace != "" {
		diff("node monitor grace", grace(have), grace(want))
	}
	if want.APIPort != 0 {
		diff("API port", have.APIPort, want.APIPort)
	}
	diff("images", have.Images, want.Images)
	diff("labels", have.Labels, want.Labels)
	if differs == nil {
		return nil
	}
	return fmt.Errorf("%w (%s)", clusters.ErrDifferent, strings.Join(differs, "; "))
}

func grace(s BootSpec) time.Duration {
	d, _ := time.ParseDuration(s.NodeMonitorGrace)
	return d
}
