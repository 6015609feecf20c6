package checks

import (
	"time"

	"shakedown.dev/shakedown/history"
)

// class is history.Class as a small number.
type class uint8

const (
	clean class = iota
	refused
	dropped
	stalled
	unfinished
	ours
	classes
)

func classOf(c history.Class) class {
	for i, known := range history.Classes() {
		if c == known {
			return class(i)
		}
	}
	return unfinished
}

func (c class) String() string { return string(history.Classes()[c]) }

// lost says whether the system under test owes an explanation for such a session.
func (c class) lost() bool { return c == refused || c == dropped || c == stalled }

// session is what is kept of every session. Times are since the run's start; open is 0 where it never opened.
type session struct {
	id                    string
	due, start, open, end time.Duration
	stream, kind          int32 // interned
	proxy, agent          int32 // pods; -1: not known
	agentID               int32 // its UUID, interned
	lost                  int32 // index in ledger.lost; -1: not lost
	class                 class
	recorded              bool
	bad                   bool // a line came back wrong
}

// when is the moment by which a session counts into a window: its end, or when it was due if it never started.
func (s *session) when() time.Duration {
	if s.class == ours {
		return s.due
	}
	return s.end
}

// lostSession is what is kept of those that attribution has to explain.
type lostSession struct {
	session   int32
	failed    history.Phase
	cut       history.Cut
	reason    string
	lastHeard time.Duration
	silent    span // stalled: the longest gap
	hops      []int32
	agentUUID string
	agentHost string
	cause     *Cause // nil before attribute
}

func (l *ledger) kindOfStream(name string) string {
	for _, s := range l.start.Streams {
		if s.Name == name {
			return s.Session
		}
	}
	return ""
}

// addOpened adds a session that is unfinished until its end is told.
func (l *ledger) addOpened(d history.SessionOpened) {
	if _, known := l.byID[d.ID]; known {
		return
	}
	l.byID[d.ID] = int32(len(l.sessions))
	l.sessions = append(l.sessions, session{id: d.ID, due: d.Due, start: d.Start, open: d.Open, end: never, stream: l.strings.id(d.Stream),
		kind:  l.strings.id(firstText(d.Type, l.kindOfStream(d.Stream))),
		proxy: l.pod(d.Proxy), agent: l.pod(d.Agent.Pod), agentID: l.strings.id(d.Agent.UUID), lost: -1, class: unfinished, recorded: d.Recorded})
}

func (l *ledger) addSession(d history.Session) {
	i, known := l.byID[d.ID]
	switch {
	case !known:
		i = int32(len(l.sessions))
		l.byID[d.ID] = i
		l.sessions = append(l.sessions, session{})
	case l.sessions[i].end != never:
		l.twice = append(l.twice, d.ID)
		return
	}
	s := session{id: d.ID, due: d.Due, start: d.Start, open: d.Open, end: d.End, stream: l.strings.id(d.Stream), kind: l.strings.id(d.Type),
		proxy: l.pod(d.Proxy), agent: l.pod(d.Agent.Pod), agentID: l.strings.id(d.Agent.UUID), lost: -1, class: classOf(d.Class), recorded: d.Recorded, bad: d.Lines.Bad > 0}
	if s.class.lost() {
		s.lost = l.addLost(d, i)
	}
	l.sessions[i] = s
	if l.loadBegan < 0 || d.Due < l.loadBegan {
		l.loadBegan = d.Due
	}
	l.measured = max(l.measured, d.End)
	if d.Open > 0 {
		l.addOpening(d)
	}
}

// maxReason bounds what is kept of an error's text: enough to recognise it.
const maxReason = 200

func (l *ledger) addLost(d history.Session, session int32) int32 {
	ls := lostSession{session: session, failed: d.Failed, cut: d.Cut,
		lastHeard: d.LastHeard, agentUUID: l.strings.name(l.strings.id(d.Agent.UUID)), agentHost: l.strings.name(l.strings.id(d.Agent.Host))}
	reason := d.Reason
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	ls.reason = l.strings.name(l.strings.id(reason))
	for _, h := range d.Hops {
		ls.hops = append(ls.hops, l.pod(h))
	}
	for _, g := range d.Gaps {
		if g.Took > ls.silent.length() {
			ls.silent = span{g.From, g.From + g.Took}
		}
	}
	l.lost = append(l.lost, ls)
	return int32(len(l.lost) - 1)
}

// recording is what is kept of every recording; there may be as many as sessions.
type recording struct {
	session       int32 // -1: not in the ledger
	holder        int32 // pod; -1: not known
	mode, storage int32 // interned
	holderEnd     int32 // interned; filled by judgeRecordings
	damage        int32 // index in ledger.damaged; -1: nothing is lost of it
	waited        time.Duration
	class         recClass
	gone, notRead bool
}

// damagedRecording is what is kept of those that attribution has to explain.
type damagedRecording struct {
	recording int32
	id        string
	lines     uint64 // missing
	detail    string
	cause     Cause
}

// recClass is history.RecordingClass as a small number.
type recClass uint8

func recClassOf(c history.RecordingClass) recClass {
	for i, known := range history.RecordingClasses() {
		if c == known {
			return recClass(i)
		}
	}
	return recClassOf(history.RecPending) // a class this version does not know tells nothing
}

func (c recClass) name() history.RecordingClass { return history.RecordingClasses()[c] }

func (l *ledger) addRecording(d history.Recording) {
	r := recording{session: -1, class: recClassOf(d.Class), mode: l.strings.id(d.Mode), storage: l.strings.id(d.Storage),
		holder: l.pod(d.Holder), gone: d.HolderGone, notRead: d.NotRead, damage: -1, waited: max(d.Waited, d.Settled)}
	if i, ok := l.byID[d.Session]; ok {
		r.session = i
	}
	if lostRecording(d.Class) {
		r.damage = int32(len(l.damaged))
		l.damaged = append(l.damaged, damagedRecording{recording: int32(len(l.recordings)), id: d.Session,
			lines: max(d.Tail, missingLines(d)), detail: l.strings.name(l.strings.id(d.Detail))})
	}
	l.addRepeated(r.session, d)
	l.recordings = append(l.recordings, r)
}

func missingLines(d history.Recording) (n uint64) {
	for _, m := range d.Missing {
		n += m[1] - m[0] + 1
	}
	return n
}
