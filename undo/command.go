package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"shakedown.dev/shakedown/clusters"
)

// Command is the Prior of CommandRun: programs to run in the cluster's network.
type Command struct {
	// Undo undoes the change. Its exit status does not matter: what is undone already is no error.
	Undo []string `json:"undo"`
	// Check exits with 0 if and only if the change is undone.
	Check []string `json:"check"`
}

func (c Cluster) command(ctx context.Context, e Entry) (string, error) {
	var prior Command
	if err := json.Unmarshal(e.Change.Prior, &prior); err != nil || len(prior.Undo) == 0 || len(prior.Check) == 0 {
		return "", fmt.Errorf("%w: read the command: %w", ErrFinal, err)
	}
	spawner, is := c.Cluster.(clusters.Spawner)
	if !is {
		return "", fmt.Errorf("%w: this cluster's provider cannot run programs in its network", ErrFinal)
	}
	said, _, err := Spawn(ctx, spawner, prior.Undo...)
	if err != nil {
		return "", err
	}
	found, exit, err := Spawn(ctx, spawner, prior.Check...)
	if err != nil {
		return "", err
	}
	if exit != 0 {
		return "", fmt.Errorf("%s: %s says it is not undone (%s %s)", strings.Join(prior.Undo, " "), prior.Check[0], said, found)
	}
	return fmt.Sprintf("%s: seen to be undone", e.Change.What), nil
}

// Spawn runs a program in the cluster's network and returns what it says and its exit status.
func Spawn(ctx context.Context, s clusters.Spawner, argv ...string) (said string, exit int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", -1, err
	}
	defer r.Close()
	out := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(io.LimitReader(r, 1<<20))
		out <- strings.TrimSpace(string(all))
	}()
	exit, err = s.Spawn(ctx, clusters.Command{Argv: argv, Dir: "/", Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		return "", -1, fmt.Errorf("run %s in the cluster's network: %w", argv[0], err)
	}
	return <-out, exit, nil
}
