package recordings

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/audit"
)

// overlap is how far back a look goes before the newest event seen: events of several servers arrive in no order,
// those of a slow one late.
const overlap = time.Minute

// ahead is how much later than ours the servers' clocks may be.
const ahead = time.Hour

// look reads the audit log, from the newest event seen on, or all of the run when it is the last time.
func (c *check) look(ctx context.Context, all bool) {
	from := c.from.Add(-overlap)
	if back := c.newest.Add(-overlap); !all && back.After(from) {
		from = back
	}
	started := c.opts.History.Now()
	var err error
	for e, problem := range c.opts.Log.Events(ctx, from, time.Now().Add(ahead), audit.SessionTypes()...) {
		if err = problem; err != nil {
			break
		}
		c.take(e)
	}
	c.lookErr = err
	switch {
	case err != nil && c.blindFrom == 0:
		c.blindFrom = started
		c.opts.Logger.Warn("read the audit log", "err", err)
	case err == nil:
		c.blindFrom = 0
		for _, it := range c.items {
			if started > it.End {
				it.looks++
			}
		}
	}
}

// take notes one event.
func (c *check) take(e audit.Event) {
	if e.Time.After(c.newest) {
		c.newest = e.Time
	}
	it := c.byID[e.Session]
	if it == nil && e.Type == audit.SessionStart {
		it = c.recognise(e)
	}
	if it == nil {
		return
	}
	key := fmt.Sprint(e.Type, e.Session, e.Index, e.Time.UnixNano())
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	switch e.Type {
	case audit.SessionStart:
		it.started = true
	case audit.SessionEnd:
		it.ended, it.endAt = true, c.opts.History.Since(e.Time)
	case audit.SessionUpload:
		it.uploaded, it.uploadAt = true, max(it.uploadAt, c.opts.History.Since(e.Time))
		if it.played.defective() {
			it.played = nil // there may be a better one now
		}
	}
	it.whole = max(it.uploadAt, it.endAt)
	c.opts.History.Record(history.Event{Subject: it.ID, Data: history.Audit{
		Event: e.Type, Code: e.Code, ServerSession: e.Session, AgentUUID: e.Server, User: e.User, Time: e.Time,
	}})
}

// recognise finds the session that a start event is of, where the session itself could not tell the log's id.
// Of several with the same address, since ports are used again, it is the one that opened at that time.
func (c *check) recognise(e audit.Event) *item {
	command := ""
	if start, ok := e.Raw.(*events.SessionStart); ok {
		command = strings.Join(start.InitialCommand, " ")
	}
	best, nearest := -1, time.Duration(math.MaxInt64)
	for i, it := range c.unknown {
		byToken := it.Lines.Token != "" && strings.Contains(command, it.Lines.Token)
		if !byToken && (it.Local == "" || it.Local != e.Remote || it.User != e.User) {
			continue
		}
		if away := (c.opts.History.Since(e.Time) - it.Open).Abs(); away < nearest {
			best, nearest = i, away
		}
	}
	if best < 0 {
		return nil
	}
	it := c.unknown[best]
	c.unknown = append(c.unknown[:best:best], c.unknown[best+1:]...)
	delete(c.byID, it.id)
	it.id = e.Session
	c.byID[it.id] = it
	return it
}

// blind writes down that the log could not be read until the end.
func (c *check) blind() {
	if c.lookErr == nil {
		return
	}
	c.summary.Blind = c.lookErr
	c.opts.History.Record(history.Event{Data: history.Blind{
		What: "audit", From: c.blindFrom, Until: c.opts.History.Now(), Error: c.lookErr.Error(),
	}})
}
