package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// docker runs Docker's command line, as kind does: it brings the user's contexts and credentials along.
func docker(ctx context.Context, args ...string) (string, error) {
	return dockerIn(ctx, nil, args...)
}

func dockerIn(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &said
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return "", cause
		}
		return "", explain(&commandError{args: args, said: strings.TrimSpace(said.String()), err: err})
	}
	return strings.TrimSpace(out.String()), nil
}

// commandError is a docker command that failed.
type commandError struct {
	args []string
	said string
	err  error
}

func (e *commandError) Error() string {
	text := e.said
	if text == "" {
		text = e.err.Error()
	}
	return "docker " + e.args[0] + ": " + text
}

func (e *commandError) Unwrap() error { return e.err }

// engine is nil if a Docker engine answers.
func engine(ctx context.Context) error {
	_, err := docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err
}

// ways are what Docker or kind says, what that means, and the way out. The first that matches counts.
var ways = []struct{ says, means, hint string }{
	{"executable file not found", "Docker's command line is not installed", "install Docker (https://docs.docker.com/engine/install), or use --cluster embedded"},
	{"permission denied while trying to connect", "this user may not talk to the Docker engine", "sudo usermod -aG docker $USER, then log in again; or run as root"},
	{"got permission denied", "this user may not talk to the Docker engine", "sudo usermod -aG docker $USER, then log in again; or run as root"},
	{"cannot connect to the docker daemon", "no Docker engine answers", "start it (systemctl start docker), or say where it is with DOCKER_HOST or docker context use"},
	{"no such image", "the image is not there", "docker pull it, or give another --image or --node-image"},
	{"pull access denied", "the image is not to be had from its registry", "check its name, or docker login"},
	{"manifest unknown", "the registry does not know the image's tag", "check the version"},
	{"failed to pull image", "the node image could not be pulled", "give one that is there: --node-image NAME or an archive"},
	{"port is already allocated", "a port that the cluster needs is taken", "leave the port to be chosen, or end what listens there"},
	{"address already in use", "a port that the cluster needs is taken", "leave the port to be chosen, or end what listens there"},
	{"no space left on device", "the disk of the Docker engine is full", "docker system prune"},
	{"already exist for a cluster with the name", "there is a kind cluster of this name", "choose another --name"},
	{"is already in use by container", "there is a cluster of this name", "choose another --name, or: shakedown cluster down --cluster kind"},
	{"cgroup v1", "this Kubernetes does not start on cgroup v1", "use a machine with cgroup v2, a node image before v1.35, or failCgroupV1: false in --kind-config"},
}

// explain puts what is meant before what was said.
func explain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ToLower(err.Error())
	for _, w := range ways {
		if !strings.Contains(text, w.says) {
			continue
		}
		if _, told := errors.AsType[*explained](err); told {
			return err
		}
		return exit.Hint(&explained{w.means, err}, w.hint)
	}
	return err
}

type explained struct {
	means string
	err   error
}

func (e *explained) Error() string { return e.means + " (" + oneLine(e.err.Error()) + ")" }
func (e *explained) Unwrap() error { return e.err }

// oneLine shortens what a program said to what a person reads.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

// errNoSuch is what docker says of an object that is not there.
func errNoSuch(err error) bool {
	failed, ok := errors.AsType[*commandError](err)
	said := ""
	if ok {
		said = strings.ToLower(failed.said)
	}
	return strings.Contains(said, "no such") || strings.Contains(said, "not found")
}

func notFound(name string) error { return &clusters.NameError{Name: name, Err: clusters.ErrNotFound} }

func wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
