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
	uploaderWaits    = 100 // scans
	defaultUploader  = uploaderWaits * 5 * time.Second
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
	endAt    time.Duration // when the session's end was logged
	uploadAt time.Duration // when its last upload was logged
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
	c.conclude()
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
	if opts.Uploader == 0 {
		opts.Uploader = defaultUploader
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
		unread := it.played == nil && (it.uploaded || over || c.lost(it))
		if !it.resolved && it.read && it.id != "" && (unread || over && it.played.defective()) {
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
	class, detail := it.class(c.opts)
	switch {
	case class == history.RecMissing && (over || c.lost(it) && (!it.read || errors.Is(it.playErr, audit.ErrNotFound))):
		class, detail = c.missing(it, holder)
	case class == history.RecNoEnd && !over, class == history.RecMissing:
		return // it may still come
	case (class == history.RecTruncated || class == history.RecGap) && !over && !it.final():
		return // a broken stream may be uploaded more than once, and the last one counts
	case class == history.RecNoEnd && c.mayComplete(it, holder):
		class, detail = history.RecPending, join(detail, "the upload completer may still write it")
	}
	c.write(it, class, detail, holder)
}

// missing is for a recording that is not there when it should be.
func (c *check) missing(it *item, h state) (history.RecordingClass, string) {
	switch {
	case c.lookErr != nil && !it.uploaded:
		return history.RecPending, "the audit log could not be read: " + c.lookErr.Error()
	case it.playErr != nil && !errors.Is(it.playErr, audit.ErrNotFound):
		return history.RecPending, "the recording could not be read: " + it.playErr.Error()
	case h.lost():
		return history.RecMissing, "the pod that held it is gone, with its emptyDir"
	case c.mayComplete(it, h):
		return history.RecPending, "its upload was abandoned; the upload completer may still finish it"
	case c.mayBackOff(it, h):
		return history.RecPending, "an auth ended before it was uploaded; its uploader may still be waiting to try again"
	case !it.started:
		return history.RecMissing, "the audit log does not know the session"
	}
	return history.RecMissing, fmt.Sprintf("not uploaded within %s", c.opts.Settle)
}

// final tells whether no other upload can come: the session's end came before it.
func (it *item) final() bool { return it.ended && it.uploaded && it.uploadAt >= it.endAt }

func (c *check) finished() bool {
	for _, it := range c.items {
		if !it.resolved {
			return false
		}
	}
	return true
}

// conclude writes down what was still open when the check had to stop.
func (c *check) conclude() {
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
	c.blind()
}
