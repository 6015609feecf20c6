package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/flags"
	"shakedown.dev/shakedown/standin/process"
)

// getenv is the process's environment.
func getenv(key string) string { return os.Getenv(key) }

// startOptions are the flags of `teleport start`.
type startOptions struct {
	Config, DiagAddr, Apply  string
	NodeName, Roles, Token   string
	Labels, AdvertiseIP      string
	AuthServers, CAPins      []string
	BehaveAs                 string
	Insecure, Debug, NoGrace bool
}

func parseStart(args []string) (startOptions, error) {
	var o startOptions
	ignored := ""
	rest, err := flags.Parse(args, []flags.Flag{
		{Name: "config", Short: "c", Text: &o.Config}, {Name: "diag-addr", Text: &o.DiagAddr},
		{Name: "apply-on-startup", Text: &o.Apply}, {Name: "insecure", Switch: &o.Insecure},
		{Name: "debug", Short: "d", Switch: &o.Debug}, {Name: "nodename", Text: &o.NodeName},
		{Name: "roles", Short: "r", Text: &o.Roles}, {Name: "token", Text: &o.Token},
		{Name: "auth-server", List: &o.AuthServers}, {Name: "behave-as", Text: &o.BehaveAs},
		{Name: "ca-pin", List: &o.CAPins}, {Name: "labels", Text: &o.Labels}, {Name: "advertise-ip", Text: &o.AdvertiseIP},
		{Name: "pid-file", Text: &ignored}, {Name: "bootstrap", Text: &ignored},
	})
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected %s", rest[0])
	}
	return o, err
}

// start is `teleport start`: it runs until a signal ends it.
func start(ctx context.Context, args []string, s Streams) error {
	o, err := parseStart(args)
	if err != nil {
		return err
	}
	d, err := newDaemon(o, getenv, s)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// daemon is one `teleport start`.
type daemon struct {
	options  startOptions
	env      environment
	config   *config.Config
	log      *slog.Logger
	faults   *faults.Registry
	health   *process.Health
	registry *prometheus.Registry
	super    *process.Supervisor
	hostUUID string
	streams  Streams
}

func newDaemon(o startOptions, get func(string) string, s Streams) (*daemon, error) {
	if o.BehaveAs != "" {
		inner := get
		get = func(key string) string {
			if key == "STANDIN_BEHAVE_AS" {
				return o.BehaveAs
			}
			return inner(key)
		}
	}
	env, err := readEnvironment(get)
	if err != nil {
		return nil, err
	}
	cfg, err := loadConfig(o.Config, env.Behaviour.StrictKeys)
	if err != nil {
		return nil, err
	}
	if err := override(cfg, o, &env); err != nil {
		return nil, err
	}
	d := &daemon{options: o, env: env, config: cfg, streams: s, log: newLogger(cfg.Global.Log, o.Debug, s.Err)}
	if err := os.MkdirAll(cfg.Global.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if d.hostUUID, err = hostUUID(cfg.Global.DataDir); err != nil {
		return nil, err
	}
	sink, err := faults.FileSink(cfg.Global.DataDir)
	if err != nil {
		return nil, err
	}
	d.faults = faults.New(sink, env.Faults...)
	d.health = process.NewHealth(env.Scale, d.faults)
	d.registry = process.NewRegistry(env.Behaviour, env.Scale, d.health)
	d.super = &process.Supervisor{Behaviour: env.Behaviour, Faults: d.faults, Health: d.health, Log: d.log}
	return d, nil
}

// loadConfig reads the file given, or the one at the usual place; where there is
// none the flags and the defaults have to do, as in the real program.
func loadConfig(path string, strict bool) (*config.Config, error) {
	if path != "" {
		return config.Load(path, strict)
	}
	if _, err := os.Stat(config.DefaultPath); err == nil {
		return config.Load(config.DefaultPath, strict)
	}
	return config.Parse("defaults", nil, strict)
}

// override lets flags and the section teleport.standin win over the file.
func override(cfg *config.Config, o startOptions, env *environment) error {
	own := cfg.Global.Standin
	if own.BehaveAs != "" && o.BehaveAs == "" && getenv("STANDIN_BEHAVE_AS") == "" {
		b, err := process.BehaviourByName(own.BehaveAs)
		if err != nil {
			return fmt.Errorf("teleport.standin.behave_as: %w", err)
		}
		env.Behaviour = b
	}
	if own.TimeFactor > 1 && env.Scale == 0 {
		env.Scale = process.Scale(own.TimeFactor)
	}
	if own.Faults != "" && env.Faults == nil {
		rules, err := faults.Parse(own.Faults)
		if err != nil {
			return fmt.Errorf("teleport.standin.faults: %w", err)
		}
		env.Faults = rules
	}
	if o.NodeName != "" {
		cfg.Global.NodeName = o.NodeName
	}
	if o.DiagAddr != "" {
		cfg.Global.DiagAddr = o.DiagAddr
	}
	if o.Token != "" {
		cfg.Global.JoinParams = config.JoinParams{Method: "token", TokenName: o.Token}
	}
	if o.AdvertiseIP != "" {
		cfg.Global.AdvertiseIP = o.AdvertiseIP
	}
	if len(o.CAPins) > 0 {
		cfg.Global.CAPin = o.CAPins
	}
	if len(o.AuthServers) > 0 {
		cfg.SetAuthServers(o.AuthServers)
	}
	return errors.Join(setLabels(cfg, o.Labels), setRoles(cfg, o.Roles))
}

func setLabels(cfg *config.Config, labels string) error {
	for _, pair := range split(labels) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return fmt.Errorf("--labels: %q is not key=value", pair)
		}
		if cfg.SSH.Labels == nil {
			cfg.SSH.Labels = map[string]string{}
		}
		cfg.SSH.Labels[key] = value
	}
	return nil
}

func setRoles(cfg *config.Config, roles string) error {
	if roles == "" {
		return nil
	}
	cfg.Auth.Enabled, cfg.Proxy.Enabled, cfg.SSH.Enabled = config.Off, config.Off, config.Off
	for _, role := range split(roles) {
		switch role {
		case "auth":
			cfg.Auth.Enabled = config.On
		case "proxy":
			cfg.Proxy.Enabled = config.On
		case "node":
			cfg.SSH.Enabled = config.On
		default:
			return fmt.Errorf("--roles: unknown role %q, allowed are auth, proxy, node", role)
		}
	}
	return nil
}

// hostUUID reads the host's UUID from the data directory, or makes it.
func hostUUID(dir string) (string, error) {
	path := filepath.Join(dir, "host_uuid")
	b, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(b))
		if _, err := uuid.Parse(id); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read host UUID: %w", err)
	}
	id := uuid.NewString()
	return id, os.WriteFile(path, []byte(id), 0o400)
}
