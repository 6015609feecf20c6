package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

// janitorImage is this program as an image of the embedded cluster.
const (
	janitorImage = "shakedown.dev/shakedown"
	janitorSpec  = "mountPath: /opt/shakedown\nentrypoint: [/opt/shakedown/shakedown]\n"
)

// outlives says whether the run employs a janitor: where the cluster stays when this process dies, and this
// program can be made an image of it, which the embedded cluster does without a registry. A cluster that is
// gone with its runner takes all changes with it.
func (r *runner) outlives() bool {
	return r.ProviderName == "embedded" && (r.Keep == KeepAlways || r.Keep == KeepOnFailure) && len(faultsOf(r.plan)) > 0
}

// stageJanitor lays this program out as an image, in dir.
func stageJanitor(dir string) (clusters.Image, error) {
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = copyProgram(self, filepath.Join(dir, "shakedown"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "image.yaml"), []byte(janitorSpec), 0o644)
	}
	if err != nil {
		return clusters.Image{}, fmt.Errorf("janitor image: %w", err)
	}
	return clusters.Image{Name: janitorImage, Source: "host:" + dir}, nil
}

// errTakenOver ends a run that was silent for so long that the janitor took it for dead.
var errTakenOver = errors.New("the run was silent for too long: the janitor in the cluster has undone its changes")

// employ has a janitor watch over the run, if the cluster outlives it. The context that it returns ends when
// the janitor takes the run over; dismiss gives everything back.
func (t *trial) employ(ctx context.Context) (watched context.Context, dismiss func(), err error) {
	if !t.outlives() {
		return ctx, func() {}, nil
	}
	client, ns, id := t.system.client, t.plan.Teleport.Namespace, t.env.Run
	hold, err := undo.Take(ctx, client, ns, id, undo.DefaultTerm)
	if err != nil {
		return ctx, func() {}, err
	}
	watched, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-hold.Lost():
			end(errTakenOver)
		case <-watched.Done():
		}
	}()
	dismiss = func() {
		end(nil)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		if err := errors.Join(hold.Release(ctx), undo.Leave(ctx, client, ns, id)); err != nil {
			t.Log.Error("the janitor is left in the cluster", "err", err)
		}
	}
	if err := undo.Employ(ctx, client, ns, id, janitorImage); err != nil {
		dismiss()
		return ctx, func() {}, err
	}
	return watched, dismiss, nil
}
