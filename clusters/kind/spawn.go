package kind

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"shakedown.dev/shakedown/clusters"
)

// Spawn runs the command in the cluster's gateway, where pods and Services have their own addresses. It is a program of
// the node image, not of this machine: the gateway sees no file of the machine but this program. A nil Env is the
// image's own, and an empty Dir its root.
func (c *Cluster) Spawn(ctx context.Context, cmd clusters.Command) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, errors.New("spawn: no command")
	}
	args := []string{"exec", "--interactive"}
	if cmd.TTY {
		args = append(args, "--tty")
	}
	if cmd.Dir != "" {
		args = append(args, "--workdir", cmd.Dir)
	}
	for _, e := range cmd.Env {
		args = append(args, "--env", e)
	}
	args = append(append(args, c.gateway.container()), c.resolving(ctx)...)
	run := exec.CommandContext(ctx, "docker", append(args, cmd.Argv...)...)
	run.Stdin, run.Stdout, run.Stderr = reader(cmd.Stdin), writer(cmd.Stdout), writer(cmd.Stderr)
	err := run.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return failed.ExitCode(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return 0, cause
	}
	return 0, err
}

// apiPatience is how long Spawn asks an API server that may be away, perhaps stopped by a program like this one.
const apiPatience = 2 * time.Second

// resolving begins a command line so that names are looked up as in a pod: Docker's own resolver knows no Services.
func (c *Cluster) resolving(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	at, err := c.addresses(ctx)
	if err != nil {
		return nil
	}
	return []string{"sh", "-c",
		`printf 'nameserver %s\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n' "$0" >/etc/resolv.conf; exec "$@"`, at.dns}
}

// Oversees is nil: the gateway shares the PID namespace that the nodes were made in.
func (c *Cluster) Oversees() error {
	if !c.gateway.sees {
		return &clusters.NameError{Name: c.name, Err: errors.New("its gateway is of an earlier version and does not see its nodes; make it anew")}
	}
	return nil
}

// reader and writer keep a nil *os.File from becoming an interface that is not nil.
func reader(f *os.File) interface{ Read([]byte) (int, error) } {
	if f == nil {
		return nil
	}
	return f
}

func writer(f *os.File) interface{ Write([]byte) (int, error) } {
	if f == nil {
		return nil
	}
	return f
}
