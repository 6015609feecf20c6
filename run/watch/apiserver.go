package watch

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/history"
)

const (
	probeEvery = time.Second
	probeBound = 3 * time.Second // a machine under load answers late, which is no outage
)

// readyz asks the API server whether it is ready.
func readyz(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

// probe looks at the API server once a second, and records when it goes and when it comes back.
func (w *Watcher) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	state := w.cfg.State
	was, err := state.Now(), error(nil) // last moment it was seen in the state before
	down := false
	for {
		began := state.Now()
		err = w.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !down:
			w.record(state.Now(), "apiserver", history.APIServer{Since: was, Error: err.Error()})
			down = true
		case err == nil && down:
			w.record(state.Now(), "apiserver", history.APIServer{Up: true, Since: was})
			down = false
		}
		was = began
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watcher) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	return w.cfg.Ready(ctx)
}
