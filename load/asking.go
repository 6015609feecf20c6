package load

import (
	"bytes"
	"time"

	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// seeing counts the changes that a watch tells, a line of JSON each.
type seeing struct {
	events uint64
	head   []byte // of the event that is coming
	failed string // the server's last word
}

func watching(scenarios.Drawn) script { return &seeing{} }

// maxHead bounds what is kept of an event: enough to know an error by, and to tell it.
const maxHead = 512

func (w *seeing) output(_ time.Duration, p []byte, _ *lines.Tally) {
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if room := maxHead - len(w.head); room > 0 {
			w.head = append(w.head, line[:min(len(line), room)]...)
		}
		if p = rest; !whole {
			return
		}
		if isError(w.head) {
			w.failed = string(w.head)
		} else if len(w.head) > 0 {
			w.events++
		}
		w.head = w.head[:0]
	}
}

// said are the words with which the server ended the watch.
func (w *seeing) said() string { return w.failed }

func (w *seeing) begin(time.Duration)                    {}
func (w *seeing) next() time.Duration                    { return never }
func (w *seeing) act(_ time.Duration, buf []byte) []byte { return buf }
func (w *seeing) owed() time.Duration                    { return 0 }
func (w *seeing) done() bool                             { return false }
func (w *seeing) sent() uint64                           { return 0 }
func (w *seeing) answers() uint64                        { return w.events }

// calling makes a call at each tick; while one is under way, none.
type calling struct {
	pace     func() time.Duration
	at       time.Duration
	answered uint64
}

func calls(d scenarios.Drawn) script {
	rng := d.Pace()
	return &calling{pace: func() time.Duration { return d.Session.Pace.Draw(rng) }}
}

func (c *calling) begin(now time.Duration) { c.at = now + c.pace() }

func (c *calling) next() time.Duration { return c.at }

// act asks. That the answer takes too long is seen by the write that waits for it.
func (c *calling) act(now time.Duration, buf []byte) []byte {
	if now < c.at {
		return buf
	}
	if c.at += c.pace(); c.at < now {
		c.at = now
	}
	return append(buf, '\n')
}

func (c *calling) output(_ time.Duration, p []byte, _ *lines.Tally) {
	c.answered += uint64(bytes.Count(p, []byte{'\n'}))
}

func (c *calling) owed() time.Duration { return 0 }
func (c *calling) done() bool          { return false }
func (c *calling) sent() uint64        { return 0 }
func (c *calling) answers() uint64     { return c.answered + 1 } // the opening call was answered too
