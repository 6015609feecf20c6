package cri

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"a.shakedown.dev/shim"
)

// killLimit is how long the kernel gets to end a process that SIGKILL was sent to.
const killLimit = 20 * time.Second

// shmSize is that of a pod's /dev/shm, 64 MiB as in containerd and Docker.
const shmSize = "64m"

// sandbox is a pod: its namespaces, address and shared files.
type sandbox struct {
	id      string
	cfg     *runtimeapi.PodSandboxConfig
	dir     string
	created time.Time
	ready   bool // guarded by Runtime.mu

	ip    netip.Addr // not valid on the node's network
	op    sync.Mutex // one tear-down at a time; guards what it undoes:
	ns    *namespaces
	held  bool     // ip is
	link  string   // the node's end of the pod's link
	pause *process // first process of a shared PID namespace, or nil
	ports bool     // host ports are in force
	shm   bool     // shm is a mount of its own
}

func (s *sandbox) options() *runtimeapi.NamespaceOption {
	return s.cfg.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

func (s *sandbox) hostNetwork() bool {
	return s.options().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func (s *sandbox) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sandbox) hostname() string {
	if h := s.cfg.GetHostname(); h != "" && !s.hostNetwork() {
		return h
	}
	h, _ := os.Hostname()
	return h
}

// RunPodSandbox makes the pod's namespaces and connects it to the network.
func (r *Runtime) RunPodSandbox(ctx context.Context, cfg *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if handler != "" {
		return "", fmt.Errorf("no runtime handler %q: there is only the default one", handler)
	}
	if err := checkSandbox(cfg); err != nil {
		return "", err
	}
	s := &sandbox{id: newID(), cfg: cfg, created: time.Now(), ready: true}
	s.dir = filepath.Join(r.cfg.Dir, "sandboxes", s.id)
	if err := r.setUpSandbox(ctx, s); err != nil {
		return "", errors.Join(fmt.Errorf("run pod sandbox %s/%s: %w", cfg.GetMetadata().GetNamespace(), cfg.GetMetadata().GetName(), err),
			r.tearDown(context.WithoutCancel(ctx), s), os.RemoveAll(s.dir))
	}
	r.mu.Lock()
	r.sandboxes[s.id] = s
	r.mu.Unlock()
	r.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, s.id, s.id)
	return s.id, nil
}

// checkSandbox refuses what this runtime cannot give rather than leave it out.
func checkSandbox(cfg *runtimeapi.PodSandboxConfig) error {
	opts := cfg.GetLinux().GetSecurityContext().GetNamespaceOptions()
	if u := opts.GetUsernsOptions(); u.GetMode() == runtimeapi.NamespaceMode_POD && len(u.GetUids()) > 0 {
		return errors.New("pods with a user namespace of their own (hostUsers: false) are not supported")
	}
	return nil
}

func (r *Runtime) setUpSandbox(ctx context.Context, s *sandbox) error {
	if err := os.MkdirAll(s.dir, 0o711); err != nil {
		return err
	}
	if err := s.writeFiles(); err != nil {
		return err
	}
	if err := s.mountShm(); err != nil {
		return err
	}
	ns, pod, err := newNamespaces(s.options(), s.hostname(), s.cfg.GetLinux().GetSysctls())
	if err != nil {
		return err
	}
	s.ns = ns
	if pod != nil {
		defer pod.Close()
		if s.ip, err = r.addrs.allocate(); err != nil {
			return err
		}
		s.held = true
		s.link = "pod" + s.id[:11] // 14 of the 15 bytes that a link's name may have
		if err := r.net.connect(pod, ns.net, s.link, s.ip); err != nil {
			return err
		}
		if err := r.ports.open(ctx, s); err != nil {
			return err
		}
	}
	if s.options().GetPid() == runtimeapi.NamespaceMode_POD {
		return s.startPause()
	}
	return nil
}

// mountShm makes what all containers of the pod see as /dev/shm.
func (s *sandbox) mountShm() error {
	if s.options().GetIpc() == runtimeapi.NamespaceMode_NODE {
		return nil
	}
	if err := os.Mkdir(s.path("shm"), 0o777); err != nil {
		return err
	}
	if err := unix.Mount("shm", s.path("shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size="+shmSize); err != nil {
		return fmt.Errorf("mount /dev/shm of the pod: %w", err)
	}
	s.shm = true
	return nil
}

func (s *sandbox) shmPath() string {
	if s.shm {
		return s.path("shm")
	}
	return "/dev/shm"
}

// startPause starts the first process of the pod's shared PID namespace.
func (s *sandbox) startPause() error {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fd := int(null.Fd())
	return onThread(func() error {
		if err := enter(s.ns.net, s.ns.ipc, s.ns.uts); err != nil {
			return err
		}
		f, err := forkShim(stdio{fd, fd, fd, false}, unix.CLONE_NEWPID, -1)
		if err != nil {
			return err
		}
		s.pause = f.proc
		return f.run(&shim.Spec{Pause: true})
	})
}

// NetNS returns the network namespace of a running pod, for those who disturb
// it; the caller closes the file. The error says so if the pod is on the node's
// network.
func (r *Runtime) NetNS(podUID string) (*os.File, error) {
	s := r.readySandbox(podUID)
	if s == nil {
		return nil, notFound("sandbox of pod", podUID)
	}
	if s.hostNetwork() {
		return nil, fmt.Errorf("pod %s is on the node's network", podUID)
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.ns == nil {
		return nil, notFound("sandbox of pod", podUID)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", s.ns.net.Fd()))
}

func (r *Runtime) readySandbox(podUID string) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if s.ready && s.cfg.GetMetadata().GetUid() == podUID {
			return s
		}
	}
	return nil
}
