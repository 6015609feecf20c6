package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/auth"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/kube"
	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/proxy"
)

// member is a service that joins the cluster before it starts.
type member struct {
	name string
	role types.SystemRole
	new  process.New
	cfg  *config.Config
	uuid string
}

// run starts everything, waits for a signal and stops by its rule.
func (d *daemon) run(ctx context.Context) error {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, warning := range d.config.Warnings {
		d.log.Warn(warning)
	}
	d.log.Info("This is a stand-in for Teleport, not Teleport.", "version", d.env.Behaviour.Version, "behave_as", d.env.Behaviour.Name, "time_factor", float64(d.env.Scale))
	control, err := faults.Serve(d.config.Global.DataDir, d.faults)
	if err != nil {
		d.log.Warn("no live control of planted faults", "error", err)
	} else {
		defer control.Close()
	}
	if addr := d.config.Global.DiagAddr; addr != "" {
		diag, err := process.ServeDiag(ctx, addr, d.health, d.registry)
		if err != nil {
			return err
		}
		defer diag.Close()
		d.log.Info("Starting diagnostic service.", "addr", diag.Addr().String())
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	signal.Ignore(syscall.SIGUSR1, syscall.SIGUSR2) // the real ones dump and fork; they must not kill
	defer signal.Stop(signals)

	life, end := context.WithCancel(ctx)
	defer end()
	trim := time.AfterFunc(trimAfter, func() { d.trim() })
	defer trim.Stop()
	failed := make(chan error, 1)
	var joining sync.WaitGroup
	fail := func(err error) {
		if err != nil && life.Err() == nil {
			select {
			case failed <- err:
			default: // the first is enough
			}
		}
	}
	joining.Go(func() { fail(d.startAll(life, &joining, fail)) })
	return d.waitAndStop(ctx, end, signals, failed)
}

// gcPercent trades a little CPU for a sixth of the memory under thousands of sessions.
const gcPercent = 50

// trimAfter is when starting is over and its pages can go.
const trimAfter = 2 * time.Second

func (d *daemon) trim() {
	debug.FreeOSMemory()
	if err := trimText(); err != nil {
		d.log.Debug("cannot let go of pages", "error", err)
	}
}

func (d *daemon) waitAndStop(ctx context.Context, end context.CancelFunc, signals <-chan os.Signal, failed <-chan error) error {
	var rule process.StopRule
	restart := false
	select {
	case err := <-failed:
		return errors.Join(err, d.super.Stop(ctx, process.StopRule{}))
	case <-ctx.Done():
	case sig := <-signals:
		rule = d.rule(sig)
		restart = rule.Restart
		d.log.Info("Got signal.", "signal", sig.String(), "graceful", rule.Graceful, "limit", rule.Limit.String())
	}
	end()
	stopping, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	done := make(chan error, 1)
	go func() { done <- d.super.Stop(stopping, rule) }()
	for {
		select {
		case err := <-done:
			if restart {
				return errors.Join(err, reexec())
			}
			return err
		case sig := <-signals:
			// A second signal that closes at once ends a graceful stop, unless the
			// process was told never to drain.
			_, stuck := d.faults.Active(faults.NeverDrain, "")
			if next := d.rule(sig); !stuck && (!next.Graceful || next.Limit > 0) {
				time.AfterFunc(next.Limit, cut)
			}
		}
	}
}

// rule is what the behaviour does on a signal; in a pod whose entrypoint rewrites
// TERM, TERM is QUIT.
func (d *daemon) rule(sig os.Signal) process.StopRule {
	b := d.env.Behaviour
	switch sig {
	case syscall.SIGQUIT:
		return b.Quit
	case syscall.SIGHUP:
		return b.Hup
	case syscall.SIGINT:
		return b.Int
	}
	if d.env.TermIs == "QUIT" {
		return b.Quit
	}
	return b.Term
}

// reexec starts the program anew in this process. The real program forks a child
// that inherits the listeners before it drains; here nothing listens meanwhile.
func reexec() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return fmt.Errorf("restart: %w", syscall.Exec(self, os.Args, os.Environ()))
}

// startAll starts the auth, then every other service as it has joined.
func (d *daemon) startAll(ctx context.Context, joining *sync.WaitGroup, fail func(error)) error {
	members := d.members()
	if d.config.AuthEnabled() {
		d.health.Expect("auth")
	}
	for _, m := range members {
		d.health.Expect(m.name)
	}
	var local *auth.Auth
	if d.config.AuthEnabled() {
		var err error
		if local, err = d.startAuth(ctx); err != nil {
			return err
		}
	}
	for _, m := range members {
		joining.Go(func() { fail(d.startMember(ctx, m, local)) })
	}
	return nil
}

func (d *daemon) startAuth(ctx context.Context) (*auth.Auth, error) {
	a, err := auth.Open(ctx, auth.Options{
		Config: d.config, HostUUID: d.hostUUID, Behaviour: d.env.Behaviour, Faults: d.faults, Metrics: d.registry,
		Log: d.log.With("component", "auth"), Scale: d.env.Scale, Heartbeat: d.health.Heartbeat, Apply: d.options.Apply,
	})
	if err != nil {
		return nil, err
	}
	admin, err := authclient.Sign(authclient.JoinParams{HostUUID: d.hostUUID, NodeName: d.config.Global.NodeName, Role: types.RoleAdmin}, a.SignHostKeys)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if err := os.MkdirAll(filepath.Join(d.config.Global.DataDir, "proc"), 0o700); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if err := admin.Save(identityPath(d.config.Global.DataDir, types.RoleAdmin)); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, d.super.Start(ctx, "auth", auth.NewServer(a))
}

// members lists the services of the configuration that join.
func (d *daemon) members() []member {
	var out []member
	add := func(enabled bool, name string, role types.SystemRole, new process.New) {
		if enabled {
			out = append(out, member{name: name, role: role, new: new, cfg: d.config, uuid: d.hostUUID})
		}
	}
	add(d.config.ProxyEnabled(), "proxy", types.RoleProxy, proxy.New)
	add(d.config.KubeEnabled(), "kube", types.RoleKube, kube.New)
	if d.env.Agents == 1 {
		add(d.config.SSHEnabled(), "node", types.RoleNode, node.New)
		return out
	}
	for i := range d.env.Agents {
		m, err := d.numbered(i)
		if err != nil {
			d.log.Error("cannot make a further node", "number", i, "error", err)
			continue
		}
		out = append(out, m)
	}
	return out
}

// numbered is node i of several in one process, with a data directory of its own.
func (d *daemon) numbered(i int) (member, error) {
	cfg := *d.config
	cfg.Global.NodeName = fmt.Sprintf("%s-%d", cfg.Global.NodeName, i)
	cfg.Global.DataDir = filepath.Join(cfg.Global.DataDir, "agents", fmt.Sprint(i))
	if err := os.MkdirAll(cfg.Global.DataDir, 0o700); err != nil {
		return member{}, err
	}
	id, err := hostUUID(cfg.Global.DataDir)
	return member{name: fmt.Sprintf("node-%d", i), role: types.RoleNode, new: node.New, cfg: &cfg, uuid: id}, err
}

func identityPath(dir string, role types.SystemRole) string {
	return filepath.Join(dir, "proc", string(role)+".id")
}
