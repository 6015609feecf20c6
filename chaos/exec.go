package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"shakedown.dev/shakedown/undo"
)

// exec runs a command in a container and returns what it says.
func (w World) exec(ctx context.Context, pod, container string, argv ...string) (string, error) {
	req := w.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(w.REST, "GET", req.URL().String())
	if err != nil {
		return "", fmt.Errorf("run %s in pod %s: %w", argv[0], pod, err)
	}
	var out bytes.Buffer
	both := &lockedWriter{w: &out}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: both, Stderr: both}); err != nil {
		return out.String(), fmt.Errorf("run %s in pod %s: %w: %s", argv[0], pod, err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// command is a change that programs in the cluster's network make and undo. Check exits with 0 if and only
// if it is undone.
func (s *Site) command(ctx context.Context, what string, do, back, check []string) error {
	prior, err := json.Marshal(undo.Command{Undo: back, Check: check})
	if err != nil {
		return err
	}
	spawner, err := s.spawner()
	if err != nil {
		return err
	}
	return s.Change(ctx, undo.Change{Kind: undo.CommandRun, What: what, Prior: prior}, func(ctx context.Context) error {
		said, exit, err := undo.Spawn(ctx, spawner, do...)
		if err == nil && exit != 0 {
			err = fmt.Errorf("exit status %d: %s", exit, said)
		}
		return err
	})
}
