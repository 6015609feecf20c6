package recordings

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/teleport/audit"
)

// found is what a recording has of a session's lines.
type found struct {
	lines      uint64
	missing    [][2]uint64
	tail       uint64 // lines missing at the end
	inside     uint64 // lines missing before that
	disorder   bool   // the lines are all there, but not as they were acknowledged
	lostEvents int64  // events missing between others, by their numbers
	duplicates int
	ended      bool // it has its own session.end
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compare holds a recording against what the server acknowledged.
func compare(want history.Lines, p audit.Playback) found {
	var have lines.Tally
	sum, expected := uint32(0), want.Ranges
	for _, line := range p.Lines() {
		n, text, v := lines.Parse([]byte(line), want.Token)
		if v != lines.Good || !have.Add(n, text) || !within(expected, n) {
			continue
		}
		sum = crc32.Update(sum, castagnoli, text)
		sum = crc32.Update(sum, castagnoli, []byte{'\n'})
	}
	f := found{missing: lines.Missing(expected, have.Ranges), duplicates: p.Duplicates, ended: p.Ended}
	var gone uint64
	for _, r := range f.missing {
		gone += r[1] - r[0] + 1
	}
	f.lines = want.Acked - gone
	f.tail = tail(expected, f.missing)
	f.inside = gone - f.tail
	f.disorder = gone == 0 && sum != want.Sum
	for _, r := range p.Missing {
		f.lostEvents += r[1] - r[0] + 1
	}
	return f
}

// defective tells whether something is missing in what was played.
func (f *found) defective() bool {
	return f != nil && (f.inside > 0 || f.tail > 0 || f.disorder || f.lostEvents > 0)
}

func within(ranges [][2]uint64, n uint64) bool {
	for _, r := range ranges {
		if n >= r[0] && n <= r[1] {
			return true
		}
	}
	return false
}

// tail is how many of the last expected lines are missing.
func tail(expected, missing [][2]uint64) (n uint64) {
	i := len(missing) - 1
	for e := len(expected) - 1; e >= 0; e-- {
		end := expected[e][1]
		if i < 0 || missing[i][1] != end {
			return n
		}
		n += end - missing[i][0] + 1
		if missing[i][0] > expected[e][0] {
			return n
		}
		i--
	}
	return n
}

// class is what the recording looks like now, and why. Missing means not there yet.
func (it *item) class(opts Options) (history.RecordingClass, string) {
	if it.read && it.played == nil || !it.read && !it.uploaded {
		return history.RecMissing, ""
	}
	if f := it.played; f != nil {
		switch {
		case f.inside > 0:
			return history.RecGap, fmt.Sprintf("%d lines missing inside", f.inside)
		case f.tail > 0:
			return history.RecTruncated, fmt.Sprintf("the last %d lines are missing", f.tail)
		case f.disorder:
			return history.RecGap, "its lines are not in the order in which they were acknowledged"
		case f.lostEvents > 0:
			return history.RecGap, fmt.Sprintf("all lines are there, but %d events are missing by their numbers", f.lostEvents)
		}
	}
	if absent := it.absent(); absent != "" {
		return history.RecNoEnd, "the audit log has no " + absent
	}
	if late := it.whole - it.End; late > opts.Late && opts.Late > 0 {
		return history.RecLate, fmt.Sprintf("complete %s after the session's end", late.Round(time.Millisecond))
	}
	return history.RecComplete, it.remark()
}

// absent lists the events that a complete recording has and this one has not.
func (it *item) absent() string {
	var names []string
	for _, e := range []struct {
		there bool
		name  string
	}{{it.started, audit.SessionStart}, {it.ended, audit.SessionEnd}, {it.uploaded, audit.SessionUpload}} {
		if !e.there {
			names = append(names, e.name)
		}
	}
	return strings.Join(names, ", ")
}

// remark is what is odd about a complete recording.
func (it *item) remark() string {
	f := it.played
	if f == nil {
		return ""
	}
	var out string
	if f.duplicates > 0 {
		out = fmt.Sprintf("%d events came more than once and were counted once", f.duplicates)
	}
	if !f.ended {
		out = join(out, "the recording itself has no end event")
	}
	return out
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// sampled says whether a recording is among the share that is played back: the same for the same seed.
func sampled(seed uint64, id string, share float64) bool {
	if share <= 0 || share >= 1 {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return rand.New(rand.NewPCG(seed, h.Sum64())).Float64() < share
}

// write puts a recording into its class for good.
func (c *check) write(it *item, class history.RecordingClass, detail string, h state) {
	it.resolved = true
	c.summary.Classes[class]++
	r := history.Recording{
		Session: it.ID, ServerSession: it.id, Class: class, Mode: c.opts.Mode, Storage: h.Storage,
		Holder: h.pod, HolderGone: h.Gone,
		Started: it.started, Ended: it.ended, Uploaded: it.uploaded,
		Expected: it.Lines.Acked, NotRead: !it.read, Detail: detail,
		Waited: max(c.opts.History.Now()-it.End, 0),
	}
	if f := it.played; f != nil {
		r.Found, r.Missing, r.Tail, r.Repeated = f.lines, f.missing, f.tail, f.duplicates
	}
	if class == history.RecComplete || class == history.RecLate {
		r.Settled = max(it.whole-it.End, 0)
	}
	c.opts.History.Record(history.Event{Subject: it.ID, Outcome: outcome(class), Data: r})
}

func outcome(class history.RecordingClass) history.Outcome {
	switch class {
	case history.RecComplete, history.RecLate:
		return history.OK
	case history.RecPending:
		return history.Unknown
	}
	return history.Failed
}
