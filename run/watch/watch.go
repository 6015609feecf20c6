// Package watch sees what becomes of the cluster while a run goes on. A Watcher turns the changes of pods,
// nodes, endpoints and workloads into events of the history; a State reads along what is recorded, by the
// watcher and by everybody else, and answers from memory what holds now.
//
// The history's events are made from whole objects by comparing each with the one before: an informer's
// cache is always true, its single notifications may be missed when a watch breaks. How long it was broken
// is recorded (gaps.go), so that nothing is concluded from silence.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"shakedown.dev/shakedown/history"
)

// Config is what a Watcher needs. Client, Namespace and State are required.
type Config struct {
	Client    kubernetes.Interface
	Namespace string // where the system under test lives
	State     *State // gets all events, and hands them on to the history
	// Ready asks the API server whether it is ready; nil: GET /readyz with Client.
	Ready func(ctx context.Context) error
	// Sync bounds the first sight of everything; 0: 30 s.
	Sync time.Duration
	Log  *slog.Logger // nil: nothing is logged
}

// Watcher watches one namespace and the nodes until it is stopped.
type Watcher struct {
	cfg  Config
	stop context.CancelFunc
	done sync.WaitGroup
	gaps []*gaps

	mu        sync.Mutex // one change is worked on at a time, so that events keep the order of the states they tell of
	pods      podSights
	workloads workloads
	endpoints endpoints
}

// Start begins to watch, and returns when everything that is there was seen once and recorded, or else the
// error why that cannot be. It watches until Stop is called or ctx ends.
func Start(ctx context.Context, cfg Config) (*Watcher, error) {
	if cfg.Client == nil || cfg.Namespace == "" || cfg.State == nil {
		return nil, errors.New("watch: needs a client, a namespace and a state")
	}
	if cfg.Sync <= 0 {
		cfg.Sync = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = readyz(cfg.Client)
	}
	ctx, stop := context.WithCancel(ctx)
	w := &Watcher{cfg: cfg, stop: stop, pods: newPods(), workloads: newWorkloads(), endpoints: newEndpoints()}
	if err := w.begin(ctx); err != nil {
		w.Stop()
		return nil, fmt.Errorf("watch namespace %s: %w", cfg.Namespace, err)
	}
	return w, nil
}

// begin sees one kind after another, in the order of the table: what later ones refer to is known then.
func (w *Watcher) begin(ctx context.Context) error {
	w.done.Go(func() { w.probe(ctx) })
	first, cancel := context.WithTimeout(ctx, w.cfg.Sync)
	defer cancel()
	for _, s := range w.sources() {
		seen, err := w.inform(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if !cache.WaitFor(first, "", seen) {
			return fmt.Errorf("%s: not seen within %s: %w", s.name, w.cfg.Sync, errors.Join(w.broken(), ctx.Err()))
		}
	}
	w.cfg.State.synced()
	return nil
}

// inform starts one informer, and gives what is done when all that is there was handled.
func (w *Watcher) inform(ctx context.Context, s source) (cache.DoneChecker, error) {
	g := &gaps{what: s.what, name: s.name, record: w.cfg.State.Record, now: w.cfg.State.Now, outage: w.cfg.State.outage}
	w.gaps = append(w.gaps, g)
	informer := cache.NewSharedInformer(g.over(s.list, s.watch, w.cfg.Client), s.object, 0)
	if err := informer.SetTransform(withoutManagedFields); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(g.failed); err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(w.handler(s))
	if err != nil {
		return nil, err
	}
	w.done.Go(func() { informer.RunWithContext(ctx) })
	return registration.HasSyncedChecker(), nil
}

// handler works on changes one at a time; the moment of a change is when it came in.
func (w *Watcher) handler(s source) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) { w.handle(func(at time.Duration) { s.seen(at, o, initial) }) },
		UpdateFunc: func(_, o any) {
			w.handle(func(at time.Duration) { s.seen(at, o, false) })
		},
		DeleteFunc: func(o any) {
			last, missed := o.(cache.DeletedFinalStateUnknown)
			if missed {
				o = last.Obj
			}
			w.handle(func(at time.Duration) { s.gone(at, o, missed) })
		},
	}
}

func (w *Watcher) handle(f func(at time.Duration)) {
	at := w.cfg.State.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	f(at)
}

// record records what was seen at a moment.
func (w *Watcher) record(at time.Duration, subject string, data history.Payload) {
	w.cfg.State.Record(history.Event{At: max(at, 1), Subject: subject, Data: data})
}

// broken is why watches do not work now.
func (w *Watcher) broken() error {
	var errs []error
	for _, g := range w.gaps {
		errs = append(errs, g.err())
	}
	return errors.Join(errs...)
}

// Stop ends watching, and returns when nothing of it runs any more. What is out of sight then is recorded.
func (w *Watcher) Stop() {
	w.stop()
	w.done.Wait()
	for _, g := range w.gaps {
		g.close()
	}
}
