// Package tctl is the stand-in's `tctl`: it works in the auth's pod, with the
// auth's own admin identity from the data directory, over mutual TLS.
package tctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/flags"
)

// Streams are where tctl reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// tool is one run of tctl.
type tool struct {
	Streams
	config *config.Config
	remote *authclient.Remote
}

// command is a subcommand: its flags are parsed by itself.
type command struct {
	words string // "auth sign"
	run   func(*tool, context.Context, []string) error
}

func commands() []command {
	return []command{
		{"create", (*tool).create}, {"get", (*tool).get}, {"rm", (*tool).rm}, {"del", (*tool).rm},
		{"users add", (*tool).usersAdd}, {"users ls", (*tool).usersList}, {"users rm", (*tool).usersRemove}, {"users del", (*tool).usersRemove},
		{"tokens add", (*tool).tokensAdd}, {"tokens ls", (*tool).tokensList}, {"tokens rm", (*tool).tokensRemove}, {"tokens del", (*tool).tokensRemove},
		{"nodes ls", (*tool).nodesList}, {"auth sign", (*tool).sign}, {"auth export", (*tool).export},
		{"status", (*tool).status}, {"inventory ls", (*tool).inventory}, {"proxy ls", (*tool).proxies},
	}
}

// globals are the flags of every command.
type globals struct {
	config, identity string
	authServers      []string
	debug, insecure  bool
}

func (g *globals) flags() []flags.Flag {
	return []flags.Flag{
		{Name: "config", Short: "c", Text: &g.config}, {Name: "identity", Short: "i", Text: &g.identity},
		{Name: "auth-server", List: &g.authServers}, {Name: "debug", Short: "d", Switch: &g.debug}, {Name: "insecure", Switch: &g.insecure},
	}
}

// Run runs one command line.
func Run(ctx context.Context, args []string, s Streams) error {
	var g globals
	args, words := takeGlobals(args, &g)
	if words == "version" {
		fmt.Fprintln(s.Out, "Teleport (stand-in) tctl: see `teleport version`")
		return nil
	}
	for _, c := range commands() {
		if words != c.words && !strings.HasPrefix(words, c.words+" ") {
			continue
		}
		t := &tool{Streams: s}
		if err := t.connect(g); err != nil {
			return err
		}
		defer t.remote.Close()
		return plain(c.run(t, ctx, dropWords(args, len(strings.Fields(c.words)))))
	}
	var known []string
	for _, c := range commands() {
		known = append(known, c.words)
	}
	return fmt.Errorf("expected command but got %q; the stand-in's tctl has: %s", words, strings.Join(known, ", "))
}

// takeGlobals takes the global flags out, wherever they stand, and returns the
// rest and its words in front of the first flag.
func takeGlobals(args []string, g *globals) ([]string, string) {
	var rest, words []string
	sawFlag := false
	for i := 0; i < len(args); i++ {
		taken := args[i : i+1]
		if i+1 < len(args) && strings.HasPrefix(args[i], "-") && !strings.Contains(args[i], "=") && args[i] != "-d" && args[i] != "--debug" && args[i] != "--insecure" {
			taken = args[i : i+2]
		}
		if strings.HasPrefix(args[i], "-") {
			if _, err := flags.Parse(taken, g.flags()); err == nil {
				i += len(taken) - 1
				continue
			}
			sawFlag = true
		}
		rest = append(rest, args[i])
		if !sawFlag {
			words = append(words, args[i])
		}
	}
	return rest, strings.Join(words, " ")
}

func dropWords(args []string, n int) []string { return args[min(n, len(args)):] }

// plain drops gRPC's words around an error.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}

// configPath is the file to read: the flag, the environment, or one of the two
// places where images keep it.
func configPath(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv("TELEPORT_CONFIG_FILE"); env != "" {
		return env
	}
	for _, path := range []string{config.DefaultPath, "/etc/teleport/teleport.yaml"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

func (t *tool) connect(g globals) error {
	t.config = &config.Config{}
	if path := configPath(g.config); path != "" {
		c, err := config.Load(path, false)
		if err != nil {
			return err
		}
		t.config = c
	}
	dir := t.config.Global.DataDir
	if dir == "" {
		dir = config.DefaultDataDir
	}
	uuidFile := filepath.Join(dir, "host_uuid")
	if _, err := os.Stat(uuidFile); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("Could not load Teleport host UUID file at %s. Please make sure that Teleport is up and running prior to using tctl.", uuidFile)
	}
	identity, err := authclient.Load(filepath.Join(dir, "proc", "Admin.id"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("tctl must be either used on the auth server or provided with the identity file via --identity flag")
	}
	if err != nil {
		return err
	}
	target := authclient.Target{Addrs: t.config.AuthAddresses()}
	if len(g.authServers) > 0 {
		target.Addrs = g.authServers
	}
	t.remote, err = authclient.Connect(target, identity)
	return err
}

// print writes v as JSON (indented by four, as the real one) or YAML.
func (t *tool) print(format string, v any) error {
	b, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return err
	}
	if format == "json" {
		_, err = fmt.Fprintln(t.Out, string(b))
		return err
	}
	var tree any
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return err
	}
	enc := yaml.NewEncoder(t.Out)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(tree), enc.Close())
}

func badFormat(format string, allowed ...string) error {
	return fmt.Errorf("Invalid format %s, only %s are supported", format, strings.Join(allowed, ", "))
}

// flatten splits lists given as one,two and as several flags.
func flatten(lists []string) []string {
	var out []string
	for _, list := range lists {
		for _, item := range strings.Split(list, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
	}
	return out
}

// callTimeout bounds each call, so that a dead auth is an error and not a hang.
const callTimeout = 30 * time.Second
