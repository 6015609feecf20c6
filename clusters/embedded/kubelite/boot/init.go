// Package boot is kubelite init: the first process of a cluster's namespaces.
// It lays the wire, issues certificates, starts the components in the order in
// which they need each other, answers the control socket, and does to nodes
// what it is asked to. It keeps nothing outside the namespaces, so its end is
// the end of the cluster, however it comes.
package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/cri"
)

// startTimeout bounds the whole start-up: a machine that needs longer has
// something else wrong with it.
const startTimeout = 3 * time.Minute

// cluster is everything that kubelite init knows.
type cluster struct {
	*supervisor
	spec     Spec
	grace    time.Duration
	started  time.Time
	creds    *credentials
	client   *kubernetes.Clientset
	progress *progress
	images   *imageBroker

	nodesMu sync.Mutex
	nodes   []*machine

	ready atomic.Bool   // the start-up is over
	down  chan struct{} // closed when the cluster was asked to end
	once  sync.Once
}

// Init runs as PID 1 until the cluster ends. An error is the reason of an end
// that nobody asked for.
func Init() error {
	closeOnExec()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	lifeline := os.NewFile(fdLifeline, "lifeline")
	if err := expectByte(lifeline, lifelineGo); err != nil {
		return err
	}
	spec, err := readSpec(os.Stdin)
	if err != nil {
		return err
	}
	grace, _ := time.ParseDuration(spec.NodeMonitorGrace)
	c := &cluster{
		supervisor: newSupervisor(log), spec: spec, grace: grace, started: time.Now(),
		progress: &progress{out: os.NewFile(fdProgress, "progress")},
		down:     make(chan struct{}),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	leash := holdLeash(lifeline)
	ended := make(chan error, 1)
	go func() { ended <- c.bringUp(ctx) }()
	err = c.live(ctx, ended, leash)
	c.sweep()
	return err
}

// sweep takes away the containers' cgroups, the one thing that the kernel would
// leave. When there is no time for it the image service does it (see components).
func (c *cluster) sweep() {
	for _, name := range c.nodeNames() {
		if err := c.kill(name); err != nil {
			c.log.Warn("stop at the end", "node", name, "err", err)
		}
	}
	if err := cri.SweepCgroups(c.spec.Name); err != nil {
		c.log.Warn("cgroups are left", "err", err)
	}
}

// live waits for whatever ends the cluster: a fault, a request, a signal, or
// the launcher's death before it let go.
func (c *cluster) live(ctx context.Context, up <-chan error, leash <-chan byte) error {
	for {
		select {
		case err := <-up:
			if err != nil {
				return err // the step that failed has told the launcher
			}
			up = nil
		case err := <-c.died:
			c.progress.say("cluster", stepFailed, err.Error())
			return err
		case b, open := <-leash:
			if !open || b != lifelineDetach {
				return errors.New("the command that started the cluster is gone")
			}
			c.detach()
			leash = nil
		case <-c.down:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// detach lets the cluster live on its own. It runs on the first thread, the
// one that the parent death signal belongs to (see main).
func (c *cluster) detach() {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		c.log.Error("clear the parent death signal", "err", err)
	}
	c.progress.say(stepDetached, stepDone, "")
	c.progress.close()
}

// holdLeash reads the lifeline; the channel is closed when the launcher is gone.
func holdLeash(lifeline io.Reader) <-chan byte {
	out := make(chan byte)
	go func() {
		defer close(out)
		b := make([]byte, 1)
		if _, err := io.ReadFull(lifeline, b); err == nil {
			out <- b[0]
		}
	}()
	return out
}

func expectByte(r io.Reader, want byte) error {
	b := make([]byte, 1)
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("lifeline: %w", err)
	}
	if b[0] != want {
		return fmt.Errorf("lifeline: got %q, want %q", b[0], want)
	}
	return nil
}

// closeOnExec keeps the launcher's descriptors from every component: one copy
// in a child would keep the name of a dead cluster taken.
func closeOnExec() {
	for fd := fdControl; fd <= fdLog; fd++ {
		syscall.CloseOnExec(fd)
	}
}

func readSpec(r io.Reader) (Spec, error) {
	var s Spec
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("spec on stdin: %w", err)
	}
	if s.Protocol != protocolVersion {
		return s, fmt.Errorf("spec speaks protocol %d, this kubelite speaks %d: build both from the same source", s.Protocol, protocolVersion)
	}
	if s.Nodes < 1 || s.Nodes > maxNodes {
		return s, fmt.Errorf("%d nodes: 1 to %d are possible", s.Nodes, maxNodes)
	}
	if s.NodeMonitorGrace != "" {
		if d, err := time.ParseDuration(s.NodeMonitorGrace); err != nil || d <= 0 {
			return s, fmt.Errorf("nodeMonitorGrace %q: want a positive duration such as 40s", s.NodeMonitorGrace)
		}
	}
	return s, nil
}

// bringUp is the start-up, step by step. What does not depend on the API
// server is done while it starts.
func (c *cluster) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.progress.step("Preparing namespaces", c.prepare); err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(fdControl, "control"))
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	api, err := net.FileListener(os.NewFile(fdAPI, "api"))
	if err != nil {
		return fmt.Errorf("API listener: %w", err)
	}
	go c.serveControl(listener)
	go c.relay(api)
	go c.reapOrphans()
	if err := c.progress.step("Starting control plane", func() error { return c.startControlPlane(ctx) }); err != nil {
		return err
	}
	if err := c.progress.step("Joining nodes", func() error { return c.joinNodes(ctx) }); err != nil {
		return err
	}
	if c.spec.HollowNodes > 0 {
		step := fmt.Sprintf("Joining %d hollow nodes", c.spec.HollowNodes)
		if err := c.progress.step(step, func() error { return c.joinHollow(ctx) }); err != nil {
			return err
		}
	}
	if err := c.progress.step("Waiting for DNS and storage", func() error { return c.awaitServices(ctx) }); err != nil {
		return err
	}
	c.ready.Store(true)
	c.progress.say(stepReady, stepDone, "")
	return nil
}

// prepare makes the private file system, the wire and the certificates.
func (c *cluster) prepare() error {
	if err := mountState(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.spec.Name)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := openWire(); err != nil {
		return err
	}
	if err := openFirewall(c.spec.Nodes); err != nil {
		return err
	}
	var err error
	if c.creds, err = makeCredentials(); err != nil {
		return err
	}
	c.images, err = openImages(c.spec.Images, c.log, c.fail)
	return err
}

// mountState makes the cluster's private tmpfs and a /proc of its own.
func mountState() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Over the machine's own /run: what its services keep there is not the
	// cluster's business, and the mount point is sure to exist. Half of the
	// memory, the kernel's default, is the limit.
	if err := unix.Mount("shakedown", filepath.Dir(stateDir), "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return fmt.Errorf("mount the private file system: %w", err)
	}
	for _, d := range []string{stateDir, logDir(), storageDir(), filepath.Join(stateDir, "nodes")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return useClusterDNS()
}

// useClusterDNS makes programs in the cluster's own namespace resolve its names.
func useClusterDNS() error {
	file := filepath.Join(stateDir, "resolv.conf")
	text := "nameserver " + apiAddress + "\nsearch default.svc." + clusterDomain + " svc." + clusterDomain + " " + clusterDomain + "\noptions ndots:5\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return nil // this machine has none: nobody expects names to resolve
	}
	if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("resolv.conf: %w", err)
	}
	return nil
}

// relay gives the outside a way to the API server.
func (c *cluster) relay(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			c.fail(fmt.Errorf("API listener: %w", err))
			return
		}
		go pipe(conn, apiAddress+":6443")
	}
}

// pipe joins conn with a connection to address until either side ends.
func pipe(conn net.Conn, address string) {
	defer conn.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(far, conn)
		_ = far.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(conn, far)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	<-done
}
