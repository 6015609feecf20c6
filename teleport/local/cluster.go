// Package local runs a Teleport cluster as plain processes on loopback: an auth, a proxy, and nodes, each a process
// of its own so that each can be stopped alone. It is for tests: the stand-in's, the contract's and the engine's.
package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/internal/loopback"
	"shakedown.dev/shakedown/teleport/tctl"
)

// Options say what to run and how.
type Options struct {
	Programs  string // folder with teleport and tctl
	Folder    string // for configuration, data and logs
	Name      string // of the cluster; empty: lab.example.com
	Nodes     int    // reached by reverse tunnels; named node-0 and so on
	Direct    bool   // one more node, "direct", that is dialled
	Separate  bool   // proxyListenerMode separate: SSH and tunnels on ports of their own
	Recording string // session_recording; empty: the program's default
	Env       []string
}

// Cluster is a running cluster.
type Cluster struct {
	Name    string
	Auth    *Process
	Proxy   *Process
	Nodes   []*Process // the direct one, if any, is the last
	Web     string     // address of the proxy's web port
	SSH     string     // address of the proxy's SSH port, with Separate
	AuthAPI string     // address of the auth's API
	Direct  string     // address of the direct node
	Tctl    tctl.Tctl
	opts    Options
}

// token lets nodes and the proxy join. It is worth nothing outside of this loopback.
const token = "local-cluster-token"

// Start starts the cluster and waits until all of it is ready and every node is registered. On error nothing is
// left running.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Name == "" {
		opts.Name = "lab.example.com"
	}
	c := &Cluster{Name: opts.Name, opts: opts}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	addrs, err := loopback.Addresses(5)
	if err != nil {
		return err
	}
	c.AuthAPI, c.Web = addrs[0], addrs[1]
	if c.opts.Separate {
		c.SSH = addrs[2]
	}
	if c.Auth, err = c.run(ctx, "auth", c.authConfig()); err != nil {
		return err
	}
	withEnv := append(slices.Clone(c.opts.Env), filepath.Join(c.opts.Programs, "tctl"), "-c", c.Auth.config)
	c.Tctl = tctl.Tctl{Run: tctl.Local("env", withEnv...)}
	if c.Proxy, err = c.run(ctx, "proxy", c.proxyConfig(addrs[3])); err != nil {
		return err
	}
	for i := range c.opts.Nodes {
		if err := c.node(ctx, fmt.Sprintf("node-%d", i), nil); err != nil {
			return err
		}
	}
	if c.opts.Direct {
		c.Direct = addrs[4]
		if err := c.node(ctx, "direct", map[string]any{"auth_server": c.AuthAPI}); err != nil {
			return err
		}
	}
	return c.registered(ctx)
}

func (c *Cluster) node(ctx context.Context, name string, join map[string]any) error {
	listen := "127.0.0.1:0"
	if join == nil {
		join = map[string]any{"proxy_server": c.Web}
	} else {
		listen = c.Direct
	}
	p, err := c.run(ctx, name, c.nodeConfig(name, join, listen))
	if err == nil {
		c.Nodes = append(c.Nodes, p)
	}
	return err
}

// run starts one process and waits until it says that it is ready.
func (c *Cluster) run(ctx context.Context, name string, config map[string]any) (*Process, error) {
	diag, err := loopback.Addresses(1)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, Diag: "http://" + diag[0], program: filepath.Join(c.opts.Programs, "teleport"), env: c.opts.Env}
	p.config, p.Log = filepath.Join(c.opts.Folder, name+".yaml"), filepath.Join(c.opts.Folder, name+".log")
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	if err := p.Ready(ctx); err != nil {
		return nil, errors.Join(err, p.Stop(syscall.SIGKILL))
	}
	return p, nil
}

// registered waits until the auth lists every node.
func (c *Cluster) registered(ctx context.Context) error {
	for {
		nodes, err := c.Tctl.Nodes(ctx)
		if err == nil && len(nodes) >= len(c.Nodes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d of %d nodes registered: %w", len(nodes), len(c.Nodes), ctx.Err()), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop kills every process and waits for them.
func (c *Cluster) Stop() error {
	var errs []error
	for _, p := range append(append([]*Process(nil), c.Nodes...), c.Proxy, c.Auth) {
		if p != nil {
			errs = append(errs, p.Stop(syscall.SIGKILL))
		}
	}
	return errors.Join(errs...)
}

// Process is one running teleport.
type Process struct {
	Name string
	Diag string // URL of /healthz, /readyz and /metrics
	Log  string // file

	program, config string
	env             []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts the process, or starts it again after it ended.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := withoutHome(p.program, "start", "-c", p.config, "--diag-addr="+p.Diag[len("http://"):], "--insecure")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.env...)
	// It must not outlive a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.done = cmd, done
	return nil
}

// withoutHome is the command with an empty home folder, where it can be had (as root, on Linux). Shells on nodes read
// the start-up files of whoever runs the tests, and those may take seconds, or wait for each other's locks.
func withoutHome(program string, args ...string) *exec.Cmd {
	me, err := user.Current()
	unshare, lookErr := exec.LookPath("unshare")
	if err != nil || lookErr != nil || os.Geteuid() != 0 || strings.HasPrefix(program, me.HomeDir+"/") {
		return exec.Command(program, args...)
	}
	mount := `mount -t tmpfs none "$0" && exec "$@"`
	return exec.Command(unshare, append([]string{"--mount", "sh", "-c", mount, me.HomeDir, program}, args...)...)
}

// Ready waits until /readyz says 200. It fails at once if the process ended.
func (p *Process) Ready(ctx context.Context) error {
	for {
		resp, err := http.Get(p.Diag + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended before it was ready: see %s", p.Name, p.Log)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (see %s)", p.Name, ctx.Err(), p.Log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Signal sends a signal and does not wait.
func (p *Process) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Signal(s)
}

// PID is the process's id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Stop sends the signal and waits for the end, at most ten seconds; then it kills.
func (p *Process) Stop(s syscall.Signal) error {
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(10 * time.Second):
		return p.Signal(syscall.SIGKILL)
	}
}
