//go:build linux

// Package embeddedtest is a small real kubelite without Kubernetes: it keeps its side of the protocol in
// real namespaces, so that the launcher, its client and the command line are tested in a second and
// without building the big one. A test binary runs Main when it is called by the name kubelite.
package embeddedtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters/embedded"
)

// ModeVar is the environment variable that makes the fake misbehave, by one of the modes.
const ModeVar = "EMBEDDEDTEST_MODE"

// Modes of the fake. Unset, it does everything right.
const (
	ModeFail    = "fail"    // a step fails
	ModeDie     = "die"     // it ends without a word on the progress pipe
	ModeHang    = "hang"    // it never becomes ready
	ModeDeaf    = "deaf"    // ready, but from then on it answers nothing
	ModeNoNodes = "nonodes" // every node operation is refused
)

// Version is the version of Kubernetes that the fake claims.
const Version = "v0.0.0-fake"

// Main is `kubelite init NAME` and `kubelite images NAME`, by os.Args. It ends the process.
func Main() {
	// The parent death signal belongs to the first thread, on which a program's main goroutine begins.
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fake kubelite:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q: want init NAME or images NAME", args)
	}
	for fd := embedded.FDControl; fd <= embedded.FDLog; fd++ {
		syscall.CloseOnExec(fd)
	}
	if args[0] == "images" {
		return images()
	}
	return (&fake{started: time.Now(), mode: os.Getenv(ModeVar)}).run()
}

// images lives as long as the other end of its descriptor 3.
func images() error {
	_, err := io.Copy(io.Discard, os.NewFile(3, "init"))
	return err
}

type fake struct {
	spec    embedded.BootSpec
	mode    string
	started time.Time

	mu       sync.Mutex
	states   []string // of the nodes
	starting bool
	down     chan struct{}
	once     sync.Once // guards down
}

func (f *fake) run() error {
	lifeline := os.NewFile(embedded.FDLifeline, "lifeline")
	letter := make([]byte, 1)
	if _, err := io.ReadFull(lifeline, letter); err != nil || letter[0] != embedded.LifelineGo {
		return fmt.Errorf("lifeline said %q: %w", letter, err)
	}
	// The stream has one document; its end is checked so that the launcher cannot hold stdin open.
	if err := json.NewDecoder(os.Stdin).Decode(&f.spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	if os.Getpid() != 1 || os.Getuid() != 0 {
		return fmt.Errorf("pid %d and uid %d: want pid 1 and uid 0", os.Getpid(), os.Getuid())
	}
	f.states = slices.Repeat([]string{"running"}, f.spec.Nodes)
	f.starting, f.down = true, make(chan struct{})
	leash := make(chan bool)
	go func() {
		_, err := io.ReadFull(lifeline, letter)
		leash <- err == nil && letter[0] == embedded.LifelineDetach
		close(leash)
	}()
	progress := os.NewFile(embedded.FDProgress, "progress")
	up := make(chan error, 1)
	go func() { up <- f.bringUp(progress) }()
	return f.live(up, leash, progress)
}

func (f *fake) live(up <-chan error, leash <-chan bool, progress *os.File) error {
	for {
		select {
		case err := <-up:
			if err != nil {
				return err
			}
			up = nil
		case detached := <-leash:
			if !detached {
				return errors.New("the launcher is gone")
			}
			if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
				return err
			}
			say(progress, embedded.StepDetached, embedded.StepDone, "")
			progress.Close()
			leash = nil
		case <-f.down:
			return nil
		}
	}
}

func say(progress io.Writer, step string, state embedded.ProgressState, detail string) {
	_ = json.NewEncoder(progress).Encode(embedded.Progress{Step: step, State: state, Detail: detail})
}

func (f *fake) bringUp(progress *os.File) error {
	say(progress, "Starting control plane", embedded.StepStarted, "")
	switch f.mode {
	case ModeFail:
		fmt.Println("etcd: disk is made of cheese")
		say(progress, "Starting control plane", embedded.StepFailed, "etcd did not start")
		return errors.New("told to fail")
	case ModeDie:
		fmt.Println("panic: oh dear")
		os.Exit(7)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	control, err := net.FileListener(os.NewFile(embedded.FDControl, "control"))
	if err != nil {
		return err
	}
	if err := f.serveInside(); err != nil {
		return err
	}
	if f.mode != ModeDeaf {
		go f.serveControl(control)
	}
	if f.mode == ModeHang {
		return nil
	}
	say(progress, "Starting control plane", embedded.StepDone, "")
	f.mu.Lock()
	f.starting = false
	f.mu.Unlock()
	say(progress, embedded.StepReady, embedded.StepDone, "")
	return nil
}

// EchoPort is a TCP and a UDP port on 127.0.0.1 inside that return what they get.
const EchoPort = 7

func (f *fake) serveInside() error {
	address := fmt.Sprintf("127.0.0.1:%d", EchoPort)
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buf[:n], from)
		}
	}()
	return nil
}

// loopbackUp does what `ip link set lo up` does, with the ioctl that netdevice(7) describes.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
