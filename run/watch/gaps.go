package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"shakedown.dev/shakedown/history"
)

// blindFrom is the shortest gap worth a word: what came later by less than that is allowed for wherever
// a watch is read.
const blindFrom = 2 * time.Second

// gaps notices while one watch is broken.
type gaps struct {
	what, name string
	record     func(history.Event)
	now        func() time.Duration
	// outage is since when the API server does not answer, if that is so.
	outage func() (since time.Duration, down bool)

	mu     sync.Mutex
	begun  bool // it worked once
	lost   bool
	from   time.Duration
	reason error
}

// over wraps the calls of a resource so that a watch's end and its return are noticed.
func (g *gaps) over(list listFunc, watcher watchFunc, client any) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := list(ctx, o)
			if err != nil {
				g.lose(err)
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := watcher(ctx, o)
			if err != nil {
				g.lose(err)
				return w, err
			}
			g.found()
			return notice(w, func() { g.lose(nil) }), nil
		},
	}, client)
}

// failed is told of each error that a reflector meets.
func (g *gaps) failed(_ context.Context, _ *cache.Reflector, err error) { g.lose(err) }

func (g *gaps) lose(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.reason = err
	}
	if g.lost || !g.begun {
		return
	}
	g.lost, g.from = true, g.now()
	// A watch over a dead connection ends late: nothing was seen since the API server went.
	if since, down := g.outage(); down && since < g.from {
		g.from = since
	}
}

func (g *gaps) found() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
	g.begun, g.lost, g.reason = true, false, nil
}

// close records a gap that is still open.
func (g *gaps) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != nil {
		g.tell()
	}
	g.lost = false
}

func (g *gaps) tell() {
	until := g.now()
	if !g.lost || until-g.from < blindFrom {
		return
	}
	b := history.Blind{What: g.what, From: g.from, Until: until, Error: g.name + ": the watch ended"}
	if g.reason != nil {
		b.Error = fmt.Sprintf("%s: %v", g.name, g.reason)
	}
	g.record(history.Event{Subject: g.name, Outcome: history.Unknown, Data: b})
}

// err is why the watch does not work now.
func (g *gaps) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", g.name, g.reason)
}

// noticed is a watch whose end is noticed.
type noticed struct {
	watch.Interface
	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

func notice(w watch.Interface, ended func()) watch.Interface {
	n := &noticed{Interface: w, out: make(chan watch.Event), stop: make(chan struct{})}
	go n.pass(ended)
	return n
}

func (n *noticed) pass(ended func()) {
	defer close(n.out)
	defer ended()
	for e := range n.Interface.ResultChan() {
		select {
		case n.out <- e:
		case <-n.stop:
			return
		}
	}
}

func (n *noticed) ResultChan() <-chan watch.Event { return n.out }

func (n *noticed) Stop() {
	n.once.Do(func() { close(n.stop) })
	n.Interface.Stop()
}
