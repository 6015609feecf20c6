// Package app is the stand-in's command line: `teleport` and `tctl` by the name
// it is called with, and its own `standin demo|fault|etcd`.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"shakedown.dev/shakedown/standin/tctl"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// errUsage is a command line that cannot be understood; it exits with 1 as the
// real programs do.
var errUsage = errors.New("usage")

// Main runs the command line and returns the exit code.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	streams := Streams{In: in, Out: out, Err: err}
	if runErr := Run(context.Background(), args, streams); runErr != nil {
		fmt.Fprintf(err, "ERROR: %v\n\n", runErr)
		return 1
	}
	return 0
}

// Run is Main without the exit code.
func Run(ctx context.Context, args []string, s Streams) error {
	name, rest := filepath.Base(args[0]), args[1:]
	if name != "teleport" && name != "tctl" && len(rest) > 0 && (rest[0] == "teleport" || rest[0] == "tctl") {
		name, rest = rest[0], rest[1:]
	}
	switch name {
	case "tctl":
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return tctl.Run(ctx, rest, tctl.Streams(s))
	case "teleport":
		return teleport(ctx, rest, s)
	}
	return standin(ctx, rest, s)
}

func teleport(ctx context.Context, args []string, s Streams) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: teleport start|configure|wait|version", errUsage)
	}
	switch args[0] {
	case "start":
		return start(ctx, args[1:], s)
	case "configure":
		return configure(args[1:], s)
	case "wait":
		return wait(ctx, args[1:], s)
	case "version":
		return version(s)
	}
	return fmt.Errorf("expected command but got %q, allowed are start, configure, wait, version", args[0])
}

func standin(ctx context.Context, args []string, s Streams) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: standin teleport|tctl|demo|fault|etcd|version, or call it as teleport or tctl", errUsage)
	}
	switch args[0] {
	case "demo":
		return demo(ctx, args[1:], s)
	case "fault":
		return fault(ctx, args[1:], s)
	case "etcd":
		return etcd(ctx, args[1:], s)
	case "version":
		return version(s)
	case "start", "configure", "wait":
		return teleport(ctx, args, s)
	}
	return fmt.Errorf("unknown command %q, allowed are teleport, tctl, demo, fault, etcd, version", args[0])
}

func version(s Streams) error {
	env, err := readEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "Teleport v%s git:standin %s\n", env.Behaviour.Version, runtime.Version())
	fmt.Fprintln(s.Out, "This is Shakedown's stand-in for Teleport, not Teleport.")
	return nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
