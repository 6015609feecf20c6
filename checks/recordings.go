package checks

import (
	"cmp"
	"fmt"
	"slices"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/history"
)

// RecordingCell counts recordings of one class by recording mode, storage and what became of the pod
// that held them.
type RecordingCell struct {
	Class   history.RecordingClass `json:"class"`
	Mode    string                 `json:"mode"`
	Storage string                 `json:"storage,omitempty"`
	Holder  string                 `json:"holder"`
	Count   int                    `json:"count"`
}

// lostRecording says whether the class means that something of a recording is lost.
func lostRecording(c history.RecordingClass) bool {
	return c == history.RecTruncated || c == history.RecGap || c == history.RecNoEnd || c == history.RecMissing
}

// judgeRecordings finds how each holder ended and what explains each loss.
func (l *ledger) judgeRecordings() {
	for i := range l.recordings {
		r := &l.recordings[i]
		w := l.recordingWindow(r)
		r.holderEnd = l.strings.id(l.holderEnd(r, w))
		if r.damage >= 0 {
			l.damaged[r.damage].cause = l.recordingCause(r, w)
		}
	}
}

// recordingWindow is from the session's opening until waiting for the recording was over.
func (l *ledger) recordingWindow(r *recording) span {
	if r.session < 0 {
		return span{0, l.last}
	}
	s := &l.sessions[r.session]
	return span{max(s.open, s.start), s.end + r.waited}
}

func (l *ledger) holderEnd(r *recording, w span) string {
	if r.holder < 0 {
		if r.gone {
			return endGone
		}
		return endUnknown
	}
	if e, ok := l.pods[r.holder].endNear(w); ok {
		return e.how
	}
	if r.gone {
		return endGone
	}
	return endAlive
}

// recordingCause looks at the holder, then at the other pods a recording passes: the session's proxy
// and agent, and the auth pods, which take the upload.
func (l *ledger) recordingCause(r *recording, w span) Cause {
	var path []int32
	if r.holder >= 0 {
		path = append(path, r.holder)
	}
	if r.session >= 0 {
		s := &l.sessions[r.session]
		path = append(path, s.proxy, s.agent)
	}
	for i, p := range l.pods {
		if p.ref.Component == "auth" {
			path = append(path, int32(i))
		}
	}
	for _, i := range path {
		if i < 0 {
			continue
		}
		if found := l.podSuspects(l.pods[i], w); len(found) > 0 {
			return conclude(found)
		}
	}
	if found := l.recordingWaySuspects(r); len(found) > 0 {
		return conclude(found)
	}
	return l.unexplained(w)
}

// Recordings counts recordings of the sessions that ended in a window; expected are all that should be there.
func (v view) Recordings(f gates.Filter, w gates.Window) (gates.Recordings, error) {
	windows, err := v.m.l.spans(w)
	if err != nil {
		return gates.Recordings{}, err
	}
	c := v.m.l.countRecordings(f, windows)
	if c.Expected == 0 {
		return c, fmt.Errorf("no recording was expected %s%s: %w", w, filterWords(f), gates.ErrNoSamples)
	}
	return c, nil
}

func (l *ledger) countRecordings(f gates.Filter, windows []span) gates.Recordings {
	var c gates.Recordings
	match := l.matcher(f)
	for i := range l.recordings {
		r := &l.recordings[i]
		if !l.recordingMatches(r, f, match, windows) {
			continue
		}
		c.Expected++
		*recordingCount(&c, r.class.name())++
	}
	if f.Mode == "" && f.Storage == "" && f.Holder == "" {
		n := l.unexamined(match, windows)
		c.Expected += n
		c.Pending += n
	}
	return c
}

func recordingCount(c *gates.Recordings, k history.RecordingClass) *int {
	switch k {
	case history.RecComplete:
		return &c.Complete
	case history.RecTruncated:
		return &c.Truncated
	case history.RecGap:
		return &c.Gap
	case history.RecNoEnd:
		return &c.NoEnd
	case history.RecMissing:
		return &c.Missing
	case history.RecLate:
		return &c.Late
	}
	return &c.Pending // also what this version does not know
}

func (l *ledger) recordingMatches(r *recording, f gates.Filter, match matcher, windows []span) bool {
	if r.session >= 0 {
		s := &l.sessions[r.session]
		if !match.match(s) || !inAny(windows, s.end) {
			return false
		}
	} else if f.Stream != "" || f.Kind != "" {
		return false
	}
	return (f.Mode == "" || f.Mode == l.strings.name(r.mode)) &&
		(f.Storage == "" || f.Storage == l.strings.name(r.storage)) &&
		(f.Holder == "" || f.Holder == l.strings.name(r.holderEnd))
}

// unexamined counts sessions whose recording is expected but was never looked at: pending, not complete.
func (l *ledger) unexamined(match matcher, windows []span) int {
	n := 0
	for i := range l.sessions {
		if s := &l.sessions[i]; l.unlooked[int32(i)] && match.match(s) && inAny(windows, s.end) {
			n++
		}
	}
	return n
}

// findUnlooked marks the sessions of which a recording is expected and none was looked at.
func (l *ledger) findUnlooked() {
	l.unlooked = map[int32]bool{}
	looked := make([]bool, len(l.sessions))
	for i := range l.recordings {
		if s := l.recordings[i].session; s >= 0 {
			looked[s] = true
		}
	}
	for i := range l.sessions {
		if l.sessions[i].recorded && !looked[i] {
			l.unlooked[int32(i)] = true
		}
	}
}

// recordingMatrix counts by class, mode, storage and the holder's end.
func (l *ledger) recordingMatrix() []RecordingCell {
	counts := map[RecordingCell]int{}
	for i := range l.recordings {
		r := &l.recordings[i]
		counts[RecordingCell{Class: r.class.name(), Mode: l.strings.name(r.mode), Storage: l.strings.name(r.storage), Holder: l.strings.name(r.holderEnd)}]++
	}
	var out []RecordingCell
	for cell, n := range counts {
		cell.Count = n
		out = append(out, cell)
	}
	order := history.RecordingClasses()
	slices.SortFunc(out, func(a, b RecordingCell) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Class), slices.Index(order, b.Class)),
			cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Storage, b.Storage), cmp.Compare(a.Holder, b.Holder))
	})
	return out
}

// LostRecording is one recording of which something is lost.
type LostRecording struct {
	Session      string                 `json:"session"`
	Class        history.RecordingClass `json:"class"`
	Mode         string                 `json:"mode"`
	Holder       string                 `json:"holder,omitempty"`
	HolderEnd    string                 `json:"holderEnd"`
	LinesMissing uint64                 `json:"linesMissing,omitempty"`
	Waited       float64                `json:"waitedSeconds,omitempty"`
	Detail       string                 `json:"detail,omitempty"`
	Cause        Cause                  `json:"cause"`
}

func (l *ledger) lostRecordings() []LostRecording {
	var out []LostRecording
	for i := range l.damaged {
		d := &l.damaged[i]
		r := &l.recordings[d.recording]
		lr := LostRecording{Session: d.id, Class: r.class.name(), Mode: l.strings.name(r.mode), HolderEnd: l.strings.name(r.holderEnd),
			LinesMissing: d.lines, Waited: inSeconds(r.waited), Detail: d.detail, Cause: d.cause}
		if r.holder >= 0 {
			lr.Holder = podName(l.pods[r.holder])
		}
		out = append(out, lr)
	}
	return out
}
