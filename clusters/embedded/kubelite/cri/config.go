package cri

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	internalapi "k8s.io/cri-api/pkg/apis"
)

// Config is what a node gives its runtime.
type Config struct {
	Cluster string       // name, for the paths of cgroups
	Node    string       // name, likewise
	Dir     string       // state, wiped at the start; on a tmpfs that goes with the cluster
	Images  Images       // where root filesystems come from
	PodCIDR netip.Prefix // the node's range of pod addresses, IPv4, /29 or larger
	NodeIP  netip.Addr   // optional: source of the node's own packets to its pods (probes)
	Log     *slog.Logger // optional
}

// Image is an unpacked image and the parts of its configuration that matter at
// run time, as in the OCI image specification.
type Image struct {
	ID              string
	Layers          []string // read-only directories, topmost first; "/" is the machine's own root
	Env             []string // KEY=value
	Entrypoint, Cmd []string
	WorkingDir      string
	User            string // user, uid, user:group or uid:gid
	StopSignal      string // SIGTERM, TERM or 15
}

// Images finds the unpacked image by the reference that the image service
// returned when it pulled it.
type Images interface {
	Rootfs(ctx context.Context, ref string) (Image, error)
}

// Runtime runs the pods of one node.
type Runtime struct {
	cfg     Config
	log     *slog.Logger
	ids     idMap
	addrs   *addresses
	net     *network
	ports   *hostPorts
	cgroups *cgroupRoot
	stream  *streamServer
	events  events
	started time.Time
	cancel  context.CancelFunc

	mu         sync.Mutex // guards the maps and the state of everything in them
	sandboxes  map[string]*sandbox
	containers map[string]*container
}

var _ internalapi.RuntimeService = (*Runtime)(nil)

// New starts a node's runtime in the namespaces of the calling process. What an
// earlier one left in Dir is removed: its containers died with it.
func New(cfg Config) (*Runtime, error) {
	if cfg.Dir == "" || cfg.Node == "" || cfg.Images == nil {
		return nil, errors.New("container runtime: Dir, Node and Images must be given")
	}
	if cfg.Cluster == "" {
		cfg.Cluster = "default"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		cfg: cfg, log: cfg.Log, started: time.Now(), events: events{},
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
	}
	if err := r.open(); err != nil {
		r.Close(context.Background())
		return nil, fmt.Errorf("container runtime of %s: %w", cfg.Node, err)
	}
	return r, nil
}

func (r *Runtime) open() (err error) {
	if err := checkKernel(); err != nil {
		return err
	}
	// What this process inherited without the close-on-exec flag is not for
	// containers. Go itself sets the flag on everything it opens.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	if r.ids, err = readIDMap(); err != nil {
		return err
	}
	if r.addrs, err = newAddresses(r.cfg.PodCIDR); err != nil {
		return err
	}
	if err := r.makeDirs(); err != nil {
		return err
	}
	if r.net, err = newNetwork(r.cfg.NodeIP); err != nil {
		return err
	}
	r.ports = newHostPorts()
	r.cgroups = openCgroups(r.cfg.Cluster, r.cfg.Node)
	if r.stream, err = startStreaming(r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	if os.Getpid() == 1 {
		go r.reapOrphans(ctx)
	}
	return nil
}

func (r *Runtime) makeDirs() error {
	// An earlier runtime in this very mount namespace left them mounted.
	mounts, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "sandboxes", "*", "shm"))
	for _, m := range mounts {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
	for _, d := range []string{"sandboxes", "containers"} {
		dir := filepath.Join(r.cfg.Dir, d)
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an earlier runtime left: %w", err)
		}
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	return nil
}

// Limits says whether memory and CPU limits hold on this node, and if not, why.
func (r *Runtime) Limits() (ok bool, why string) { return r.cgroups.usable() }

// newID returns 64 hexadecimal digits, the form that tools expect of an id.
func newID() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
