package recordings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/audit"
)

// Defaults of Options.
const (
	defaultEvery     = 2 * time.Second
	defaultParallel  = 4
	defaultCompleter = 37 * time.Minute
)

// check is one run of Check.
type check struct {
	opts  Options
	items []*item
	byID  map[string]*item // by the log's session id
	// unknown are the sessions whose id in the log is not known yet.
	unknown []*item

	from     time.Time // of the run, by the wall clock
	newest   time.Time // of the events seen
	seen     map[string]bool
	deadline time.Duration // of the run

	lookErr   error         // of the last look at the log
	blindFrom time.Duration // since when the log could not be read; 0: it can
	summary   Summary
}

// item is one recording that is awaited.
type item struct {
	Session
	id       string // of the session in the log
	read     bool   // it is to be played back; else the log alone is looked at
	started  bool
	ended    bool
	uploaded bool
	whole    time.Duration // when the last of these three events came, by the run's clock
	looks    int           // at the log, since the session ended

	played   *found
	playErr  error
	resolved bool
}

// Check looks at the audit log and plays recordings back until each session's recording is in a class, and writes
// one history.Recording for each, and the audit events about them. Each is in a class as soon as that is certain;
// at the latest when the settle time is over. When ctx ends, what is not certain is pending. The error is for a
// check that could not be done at all.
func Check(ctx context.Context, opts Options, sessions []Session) (Summary, error) {
	if opts.Log == nil || opts.History == nil || opts.Mode == "" {
		return Summary{}, errors.New("recordings: needs a log, a history and the mode of recording")
	}
	c := newCheck(opts, sessions)
	for len(sessions) > 0 {
		c.round(ctx)
		if c.finished() || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.opts.Every):
		}
	}
	c.conclude(ctx)
	return c.summary, nil
}

func newCheck(opts Options, sessions []Session) *check {
	if opts.Every == 0 {
		opts.Every = defaultEvery
	}
	if opts.Parallel == 0 {
		opts.Parallel = defaultParallel
	}
	if opts.Completer == 0 {
		opts.Completer = defaultCompleter
	}
	if opts.Holder == nil {
		opts.Holder = func(history.PodRef, time.Duration) Holder { return Holder{} }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &check{opts: opts, byID: map[string]*item{}, seen: map[string]bool{}, summary: Summary{Expected: len(sessions), Classes: map[history.RecordingClass]int{}}}
	now := opts.History.Now()
	c.from = time.Now().Add(-now).Round(0)
	last := time.Duration(0)
	for i := range sessions {
		it := &item{Session: sessions[i], read: sampled(opts.Seed, sessions[i].ID, opts.Sample)}
		c.items = append(c.items, it)
		if it.ServerSession != "" {
			it.id = it.ServerSession
			c.byID[it.id] = it
		}
		if it.ServerSession == "" || atProxy(opts.Mode) {
			c.unknown = append(c.unknown, it)
		}
		last = max(last, it.End)
	}
	c.deadline = last + opts.Settle
	return c
}

// round looks once at the log and at every recording that may be there.
func (c *check) round(ctx context.Context) {
	now := c.opts.History.Now()
	over := now >= c.deadline
	c.look(ctx, over)
	var play []*item
	for _, it := range c.items {
		// At the end also those whose upload was not heard of: only the recording itself can say that it is missing.
		if !it.resolved && it.read && it.played == nil && it.id != "" && (it.uploaded || over || c.lost(it)) {
			play = append(play, it)
		}
	}
	c.play(ctx, play)
	for _, it := range c.items {
		if !it.resolved {
			c.settle(it, over)
		}
	}
}

// play plays recordings back, a few at once; the log's own rate paces them.
func (c *check) play(ctx context.Context, items []*item) {
	next := make(chan *item)
	var wg sync.WaitGroup
	for range min(c.opts.Parallel, len(items)) {
		wg.Go(func() {
			for it := range next {
				p, err := c.opts.Log.Play(ctx, it.id)
				if it.playErr = err; err == nil {
					f := compare(it.Lines, p)
					it.played = &f
				}
			}
		})
	}
	for _, it := range items {
		next <- it
	}
	close(next)
	wg.Wait()
	for _, it := range items {
		if it.played != nil {
			c.summary.Played++
		}
	}
}

// settle puts a recording into its class, if that is certain.
func (c *check) settle(it *item, over bool) {
	holder := c.holder(it)
	class, detail := it.class(c.opts, holder)
	switch {
	case class == history.RecMissing && (over || c.lost(it) && errors.Is(it.playErr, audit.ErrNotFound)):
		class, detail = c.missing(it, holder)
	case class == history.RecNoEnd && !over, class == history.RecMissing:
		return // it may still come
	case class == history.RecNoEnd && c.mayComplete(it, holder):
		class, detail = history.RecPending, join(detail, "the upload completer may still write it")
	}
	c.write(it, class, detail, holder)
}

// missing is for a recording that is not there when it should be.
func (c *check) missing(it *item, h Holder) (history.RecordingClass, string) {
	switch {
	case c.lookErr != nil && !it.uploaded:
		return history.RecPending, "the audit log could not be read: " + c.lookErr.Error()
	case it.playErr != nil && !errors.Is(it.playErr, audit.ErrNotFound):
		return history.RecPending, "the recording could not be read: " + it.playErr.Error()
	case h.Gone && c.dies(h):
		return history.RecMissing, "the pod that held it is gone, with its " + orText(h.Storage, "storage")
	case c.mayComplete(it, h):
		return history.RecPending, "its upload was abandoned; the upload completer may still finish it"
	case !it.started:
		return history.RecMissing, "the audit log does not know the session"
	}
	return history.RecMissing, fmt.Sprintf("not uploaded within %s", c.opts.Settle)
}

// mayComplete tells whether the upload completer still has time to finish the recording: it is abandoned, because
// its recorder ended before it did, and not lost.
func (c *check) mayComplete(it *item, h Holder) bool {
	abandoned := h.Restarted || h.Gone && !c.dies(h)
	return abandoned && c.opts.History.Now() < it.End+c.opts.Completer
}

// dies tells whether a recording that is not uploaded ends with the pod: where it is kept in the pod's own folder.
// Sync modes keep it at the auth.
func (c *check) dies(h Holder) bool {
	return !atAuth(c.opts.Mode) && h.Storage == emptyDir
}

const emptyDir = "emptyDir"

// certainLooks is how many looks at the log a recording is given after its holder was seen gone: what it uploaded
// in its last moment is in the log by then.
const certainLooks = 2

// lost tells whether the recording cannot come any more.
func (c *check) lost(it *item) bool {
	h := c.holder(it)
	return h.Gone && c.dies(h) && it.looks >= certainLooks && !it.uploaded
}

// holder is what became of the pod that holds the recording until its upload.
func (c *check) holder(it *item) Holder {
	pod := holderPod(c.opts.Mode, it.Session)
	if pod.UID == "" && pod.Name == "" {
		return Holder{}
	}
	return c.opts.Holder(pod, it.Open)
}

// holderPod is the pod whose end abandons the recording: the one that records.
func holderPod(mode string, s Session) history.PodRef {
	switch {
	case s.Type == "kube-exec":
		return history.PodRef{Component: "auth"} // the Kubernetes service runs in one of the auth pods, nobody says in which
	case atProxy(mode):
		return s.Proxy
	}
	return s.Agent.Pod
}

func atProxy(mode string) bool { return mode == "proxy" || mode == "proxy-sync" }
func atAuth(mode string) bool  { return mode == "node-sync" || mode == "proxy-sync" }

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (c *check) finished() bool {
	for _, it := range c.items {
		if !it.resolved {
			return false
		}
	}
	return true
}

// conclude writes down what was still open when the check had to stop.
func (c *check) conclude(ctx context.Context) {
	for _, it := range c.items {
		if it.resolved {
			continue
		}
		why := "the check was ended before"
		if err := errors.Join(c.lookErr, it.playErr); err != nil {
			why = err.Error()
		}
		c.write(it, history.RecPending, why, c.holder(it))
	}
	c.blind(ctx.Err())
}
