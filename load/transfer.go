package load

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"time"

	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// chunk is how much of a transfer is sent or read at once, as sftp does.
const chunk = 32 << 10

// transferTick is how often a transfer with a rate sends.
const transferTick = 100 * time.Millisecond

// transferCommand is the far side of a transfer: of coreutils or busybox only. What goes down are the numbers from 1
// on, a line each, so that both sides know every byte and none can stand in the place of another.
func transferCommand(s scenarios.Session) string {
	size := strconv.FormatInt(s.Size, 10)
	if s.Direction == "down" {
		return "seq 1 " + size + " | head -c " + size
	}
	return "head -c " + size + " | sha256sum"
}

func transfer(d scenarios.Drawn) script {
	if d.Session.Direction == "down" {
		return &download{size: d.Session.Size, rate: d.Session.Rate}
	}
	return &upload{size: d.Session.Size, rate: d.Session.Rate, sum: sha256.New()}
}

// numbers is the text 1, 2, 3, …, a line each; n is the last that was written.
type numbers struct{ n int64 }

func (c *numbers) fill(buf []byte, least int) []byte {
	for len(buf) < least {
		c.n++
		buf = append(strconv.AppendInt(buf, c.n, 10), '\n')
	}
	return buf
}

// upload sends so many bytes, and holds the checksum that the far side says against its own.
type upload struct {
	size, rate int64

	text    numbers
	over    []byte // of a line that was cut by the end of a chunk
	copied  int64
	sum     hash.Hash
	at      time.Duration
	waited  time.Duration // since when the checksum is awaited
	digest  []byte        // what the far side said
	refused bool          // it said something before all was sent
}

func (u *upload) begin(now time.Duration) { u.at = now }

func (u *upload) next() time.Duration { return u.at }

func (u *upload) act(now time.Duration, buf []byte) []byte {
	if now < u.at || u.copied == u.size {
		return buf
	}
	most := min(int64(chunk), u.size-u.copied)
	u.at = now
	if u.rate > 0 {
		most = min(most, max(u.rate*int64(transferTick)/int64(time.Second), 1))
		u.at = now + time.Duration(float64(most)/float64(u.rate)*float64(time.Second))
	}
	all := u.text.fill(append(buf, u.over...), len(buf)+int(most))
	out := all[:len(buf)+int(most)]
	u.over = append(u.over[:0], all[len(out):]...)
	u.sum.Write(out[len(buf):])
	if u.copied += most; u.copied == u.size {
		u.at, u.waited = never, max(now, 1) // 0 means none
	}
	return out
}

func (u *upload) output(now time.Duration, p []byte, _ *lines.Tally) {
	if u.refused = u.refused || u.copied < u.size; len(u.digest) < maxWords {
		u.digest = append(u.digest, p...)
	}
	if u.waited > 0 {
		u.waited = now
	}
}

func (u *upload) flaw() string {
	want := hex.EncodeToString(u.sum.Sum(nil))
	switch said := string(bytes.TrimSpace(u.digest)); {
	case u.copied < u.size:
		return fmt.Sprintf("it ended after %d of %d bytes were sent; it said: %s", u.copied, u.size, said)
	case !bytes.Contains(u.digest, []byte(want)):
		return fmt.Sprintf("the far side has the checksum %q, want %s", said, want)
	}
	return ""
}

func (u *upload) owed() time.Duration { return u.waited }
func (u *upload) done() bool          { return false } // the far side ends it
func (u *upload) sent() uint64        { return 0 }

// download takes so many bytes and checks each.
type download struct {
	size, rate int64

	text   numbers
	want   []byte // bytes that are to come next
	came   int64
	wrong  int64 // the first byte that was not the one to come, from 1; 0: none
	began  time.Duration
	waited time.Duration
}

func (d *download) begin(now time.Duration) { d.began, d.waited = now, max(now, 1) }

func (d *download) output(now time.Duration, p []byte, _ *lines.Tally) {
	d.waited = max(now, 1) + d.pause(now)
	if d.wrong == 0 {
		d.check(p)
	}
	d.came += int64(len(p))
}

func (d *download) check(p []byte) {
	d.want = d.text.fill(d.want, len(p))
	if !bytes.Equal(d.want[:len(p)], p) {
		at := 0
		for d.want[at] == p[at] {
			at++
		}
		d.wrong = d.came + int64(at) + 1
	}
	d.want = append(d.want[:0], d.want[len(p):]...)
}

// pause keeps to the rate by reading no faster; SSH's window then holds the far side back.
func (d *download) pause(now time.Duration) time.Duration {
	if d.rate == 0 {
		return 0
	}
	return max(d.began+time.Duration(float64(d.came)/float64(d.rate)*float64(time.Second))-now, 0)
}

func (d *download) flaw() string {
	switch {
	case d.wrong > 0:
		return fmt.Sprintf("byte %d is not what was sent", d.wrong)
	case d.came != d.size:
		return fmt.Sprintf("%d of %d bytes came", d.came, d.size)
	}
	return ""
}

func (d *download) next() time.Duration                    { return never }
func (d *download) act(_ time.Duration, buf []byte) []byte { return buf }
func (d *download) owed() time.Duration                    { return d.waited }
func (d *download) done() bool                             { return false }
func (d *download) sent() uint64                           { return 0 }
