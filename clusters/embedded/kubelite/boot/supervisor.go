package boot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// supervisor owns the cluster's processes. A component that dies without being
// told to takes the whole cluster with it, because a Kubernetes with a part
// missing would make a run lie; kube-proxy alone is started again when it exits
// by itself, as its DaemonSet does elsewhere.
type supervisor struct {
	log  *slog.Logger
	died chan error // first unexpected end

	mu     sync.Mutex
	procs  map[string]*process
	guests map[int]bool // processes of spawn requests, waited for by their handlers
}

type process struct {
	name     string
	pid      int
	expected bool // its end is our doing
	gone     chan struct{}
}

// spawn says how a component is started.
type spawn struct {
	name    string
	args    []string        // of kubelite
	netns   *netns.NsHandle // nil: the cluster's own
	flags   uintptr         // namespaces of its own
	env     []string
	restart bool
}

func newSupervisor(log *slog.Logger) *supervisor {
	return &supervisor{log: log, died: make(chan error, 1), procs: map[string]*process{}, guests: map[int]bool{}}
}

// start runs kubelite with s.args. Its output goes to a file of its name.
func (v *supervisor) start(s spawn) (*process, error) {
	out, err := os.OpenFile(logPath(s.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe", s.args...)
	cmd.Args[0] = "kubelite"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: s.flags}
	if err := startIn(cmd, s.netns); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &process{name: s.name, pid: cmd.Process.Pid, gone: make(chan struct{})}
	v.mu.Lock()
	v.procs[s.name] = p
	v.mu.Unlock()
	v.log.Info("started", "component", s.name, "pid", p.pid)
	go v.watch(p, cmd, s)
	return p, nil
}

// startIn starts cmd in the network namespace ns, or in ours if that is nil.
func startIn(cmd *exec.Cmd, ns *netns.NsHandle) error {
	if ns == nil {
		return cmd.Start()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := netns.Set(*ns); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

func (v *supervisor) watch(p *process, cmd *exec.Cmd, s spawn) {
	err := cmd.Wait()
	v.mu.Lock()
	expected := p.expected
	if v.procs[p.name] == p {
		delete(v.procs, p.name)
	}
	v.mu.Unlock()
	close(p.gone)
	if expected {
		return
	}
	if s.restart && cmd.ProcessState.Exited() {
		v.log.Warn("exited, starting it again", "component", p.name, "err", err)
		time.Sleep(time.Second)
		if _, err := v.start(s); err == nil {
			return
		}
	}
	v.fail(fmt.Errorf("%s ended unexpectedly (%v)%s", p.name, cmd.ProcessState, lastWords(p.name)))
}

// fail ends the cluster; only the first reason counts.
func (v *supervisor) fail(err error) {
	select {
	case v.died <- err:
	default:
	}
}

// kill ends a component on purpose and waits until it is gone.
func (v *supervisor) kill(name string) error {
	v.mu.Lock()
	p := v.procs[name]
	if p != nil {
		p.expected = true
	}
	v.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-p.gone
	return nil
}

// expect says that components may end without that being a fault.
func (v *supervisor) expect(names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		if p := v.procs[name]; p != nil {
			p.expected = true
		}
	}
}

// pid is the process id of a running component, or 0.
func (v *supervisor) pid(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.procs[name]; p != nil {
		return p.pid
	}
	return 0
}

// await polls ready until it holds, a component dies or ctx ends.
func (v *supervisor) await(ctx context.Context, what string, ready func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case died := <-v.died:
			v.fail(died)
			return died
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last answer: %w)", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func logPath(component string) string { return filepath.Join(logDir(), component+".log") }

// lastWords is what explains the end of a component best: from its panic or
// fatal line on, or else its last lines.
func lastWords(component string) string { return lastWordsOf(logPath(component)) }

func lastWordsOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	var last []string
	fatal := false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if !fatal && isFatal(line) {
			fatal, last = true, nil
		}
		if line != "" && !(fatal && len(last) == wordsKept) {
			last = append(last, line)
		}
		if len(last) > wordsKept {
			last = last[1:]
		}
	}
	if len(last) == 0 {
		return ""
	}
	return ": " + strings.Join(last, " | ")
}

const wordsKept = 3

// isFatal knows Go's panics and klog's fatal lines.
func isFatal(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
		len(line) > 5 && line[0] == 'F' && line[1] >= '0' && line[1] <= '9'
}
