package load

import (
	"math/rand/v2"
	"time"

	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// typing sends numbered lines, so many at each tick.
type typing struct {
	token  string
	length int           // of a line in bytes
	batch  int           // lines at a tick
	pause  time.Duration // between ticks, where pace is nil
	pace   func() time.Duration

	at     time.Duration // of the next tick
	typed  uint64
	acked  uint64        // highest line that came back
	wrong  uint64        // lines that came back changed
	waited time.Duration // since when a line is awaited
}

// interactive types a line at a pace.
func interactive(d scenarios.Drawn) script {
	rng := d.Pace()
	t := &typing{token: lines.Token(d.Seed), length: d.Session.LineBytes, batch: 1}
	if p := d.Session.Pace; p.Shape == scenarios.Constant {
		t.pause = p.Mean.Duration() // no generator kept
	} else {
		t.pace = func() time.Duration { return p.Draw(rng) }
	}
	t.at = firstTick(t, rng)
	return t
}

// firstTick spreads sessions that opened together over one pace.
func firstTick(t *typing, rng *rand.Rand) time.Duration {
	if t.pace != nil {
		return t.pace()
	}
	return time.Duration(rng.Float64() * float64(t.pause))
}

// bulkTick is how often bulk output is asked for, where its rate does not make that less than a line.
const bulkTick = 100 * time.Millisecond

// bulk lets the far side write at a rate: it gives back long lines, which are typed at that rate and checked as
// all others.
func bulk(d scenarios.Drawn) script {
	perTick := int(d.Session.Rate * int64(bulkTick) / int64(time.Second))
	length := min(max(perTick, 64), 1024)
	batch := max(perTick/length, 1)
	pause := time.Duration(float64(batch*length) / float64(d.Session.Rate) * float64(time.Second))
	t := &typing{token: lines.Token(d.Seed), length: length, batch: batch, pause: pause}
	t.at = firstTick(t, d.Pace())
	return t
}

// maxAhead is how many bytes may be on their way before typing waits for the far side.
const maxAhead = 128 << 10

func (t *typing) begin(now time.Duration) { t.at += now }

func (t *typing) next() time.Duration { return t.at }

func (t *typing) act(now time.Duration, buf []byte) []byte {
	if now < t.at {
		return buf
	}
	pause := t.pause
	if t.pace != nil {
		pause = t.pace()
	}
	// From when it was due, so that lateness does not add up; but what was missed is not made up for.
	if t.at += pause; t.at < now {
		t.at = now + pause
	}
	if int(t.typed-t.acked)*t.length > maxAhead {
		return buf
	}
	if t.typed == t.acked {
		t.waited = now
	}
	for range t.batch {
		t.typed++
		buf = lines.Append(buf, t.token, t.typed, t.length)
	}
	return buf
}

func (t *typing) output(now time.Duration, _ []byte, tally *lines.Tally) {
	// A line that came back changed is wrong, but it is an answer.
	wrong := tally.Bad - t.wrong
	t.wrong = tally.Bad
	if tally.Last <= t.acked && wrong == 0 {
		return
	}
	t.acked, t.waited = min(max(tally.Last, t.acked+wrong), t.typed), now
	if t.acked == t.typed {
		t.waited = 0
	}
}

func (t *typing) owed() time.Duration { return t.waited }
func (t *typing) done() bool          { return false }
func (t *typing) sent() uint64        { return t.typed }
