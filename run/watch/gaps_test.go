package watch

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/history"
)

// TestWatchesThatBreak: a watch that is broken for long is recorded, one that comes back at once is not.
func TestWatchesThatBreak(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		g := r.w.gaps[0]
		if g.what != "nodes" {
			t.Fatal(g.what)
		}
		time.Sleep(time.Second)
		g.lose(nil)
		time.Sleep(time.Second)
		g.found()
		r.expect("a second is what a watch may be late anyway")
		g.lose(errors.New("connection refused"))
		g.lose(errors.New("connection refused again"))
		time.Sleep(5 * time.Second)
		g.found()
		r.expect("five seconds", "blind nodes nodes: connection refused again")
		g.lose(errors.New("EOF"))
		time.Sleep(3 * time.Second)
		r.w.Stop()
		r.expect("blind to the end", "blind nodes nodes: EOF")
	})
}

// TestAWatchThatBreaks: the watch of pods ends and cannot be had again for a while. What happened meanwhile is
// recorded when it is back, with the time in which nothing was seen; a pod that went then went somehow.
func TestAWatchThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, client: fake.NewClientset(pod("a", "proxy", "x", up(true)), pod("b", "proxy", "x")), sink: &sink{start: time.Now()}}
		line := cutLine(r.client, "pods")
		r.state = NewState(r.sink)
		w, err := Start(t.Context(), Config{Client: r.client, Namespace: namespace, State: r.state, Ready: r.ready})
		r.must(err)
		defer w.Stop()
		r.expect("before", "pod a created", "pod a ready", "pod b created")
		time.Sleep(time.Second)

		line.cut()
		r.deletePod("a")
		r.put(pod("b", "proxy", "x", up(true)))
		time.Sleep(4 * time.Second)
		r.expect("while nothing is seen")
		if len(r.state.Proxies()) != 1 {
			t.Error("what was seen last stands")
		}
		line.mend()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		news := r.sink.news()
		if len(news) != 4 || !contains(news[0], "blind pods pods: ", "no line") {
			t.Fatalf("%q", news)
		}
		want := []string{"pod a gone it went while nothing was seen", "pod b created scheduled", "pod b ready"}
		if diff := cmp.Diff(want, news[1:]); diff != "" {
			t.Error(diff)
		}
		for _, e := range r.sink.all {
			if b, ok := e.Data.(history.Blind); ok && (b.From < time.Second || b.From > 1500*time.Millisecond || b.Until < 5*time.Second) {
				t.Errorf("blind from %s to %s", b.From, b.Until)
			}
		}
	})
}

// TestCatchUp: a change that the watch has not told of yet is waited for.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, client: fake.NewClientset(threeProxies()...), sink: &sink{start: time.Now()}}
		line := cutLine(r.client, "deployments")
		r.state = NewState(r.sink)
		w, err := Start(t.Context(), Config{Client: r.client, Namespace: namespace, State: r.state, Ready: r.ready})
		r.must(err)
		defer w.Stop()
		r.must(w.CatchUp(t.Context()))
		synctest.Wait()

		line.cut()
		changed := deployment("proxy", 3, settled(3))
		changed.Generation = 2
		r.put(changed)
		if err := w.CatchUp(t.Context()); err == nil || !contains(err.Error(), "look at the workloads") {
			t.Errorf("nobody could look: %v", err)
		}
		line.mend()
		if err := r.state.Settled("proxy"); err != nil {
			t.Errorf("the watch has told nothing yet: %v", err)
		}
		r.must(w.CatchUp(t.Context()))
		if err := r.state.Settled("proxy"); err == nil || !contains(err.Error(), "has not seen the change") {
			t.Errorf("settled by how it was before: %v", err)
		}
	})
}

// line is what one resource's lists and watches go through.
type line struct {
	mu      sync.Mutex
	down    bool
	watches []apiwatch.Interface
}

func cutLine(c *fake.Clientset, resource string) *line {
	l := &line{}
	c.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return l.isDown(), nil, errors.New("no line")
	})
	c.PrependWatchReactor(resource, func(a clienttesting.Action) (bool, apiwatch.Interface, error) {
		if l.isDown() {
			return true, nil, errors.New("no line")
		}
		w, err := c.Tracker().Watch(a.GetResource(), a.GetNamespace())
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watches = append(l.watches, w)
		return true, w, err
	})
	return l
}

func (l *line) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, w := range l.watches {
		w.Stop()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// TestABlindSpotBeginsWithTheOutage: a watch over a dead connection ends late, but saw nothing before.
func TestABlindSpotBeginsWithTheOutage(t *testing.T) {
	s := &sink{start: time.Now()}
	g := &gaps{
		what: "pods", name: "pods", record: s.Record, begun: true,
		now:    func() time.Duration { return 30 * time.Second },
		outage: func() (time.Duration, bool) { return 12 * time.Second, true },
	}
	g.lose(nil)
	if g.from != 12*time.Second {
		t.Errorf("blind since %s", g.from)
	}
}
