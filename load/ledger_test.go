package load

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

const (
	k       = 2 * time.Second  // keep-alive
	stall   = 10 * time.Second // from when a session is stalled
	maxPace = time.Second
	margin  = 300 * time.Millisecond // more than any latency there and back
)

// want is what the ledger must say of a session.
type want struct {
	class  history.Class
	cut    history.Cut
	failed history.Phase
}

// truth says what must become of a session with that fate. length is of its script; until is how long after it
// was ready the run ends.
func truth(f fate, length, until time.Duration) want {
	ends := want{class: history.Clean}
	if until < length {
		ends.class = history.Unfinished
	}
	switch f.what {
	case refuses:
		return want{history.Refused, history.CutUnrouted, history.PhaseRoute}
	case mute, tardy:
		return want{history.Refused, history.CutTimeout, history.PhaseShell}
	case files:
		return want{class: history.Ours}
	case badStatus:
		return want{class: history.Dropped, cut: history.CutProtocol}
	}
	if f.at > min(length, until) {
		return ends // it was over before
	}
	switch f.what {
	case reset:
		return want{class: history.Dropped, cut: history.CutReset}
	case eof:
		return want{class: history.Dropped, cut: history.CutEOF}
	case channel:
		return want{class: history.Dropped, cut: history.CutChannel}
	case message, quits, killed:
		return want{class: history.Dropped, cut: history.CutMessage}
	case halfOpen:
		return want{class: history.Dropped, cut: history.CutKeepalive}
	case pause:
		if f.lasting > k {
			return want{class: history.Dropped, cut: history.CutKeepalive}
		}
	case freeze, clogs:
		if f.lasting > stall {
			return want{class: history.Stalled}
		}
	}
	return ends
}

func drawFate(t *rapid.T, n int) fate {
	label := func(s string) string { return fmt.Sprint(s, n) }
	f := fate{
		what: rapid.SampledFrom([]trouble{
			fine, fine, reset, eof, channel, message, halfOpen, pause, freeze, clogs, quits, badStatus, killed, corrupts, swallows, trickles, refuses, mute, tardy, files,
		}).Draw(t, label("what")),
		latency: time.Duration(rapid.Int64Range(0, int64(80*time.Millisecond)).Draw(t, label("latency"))),
		at:      time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(40*time.Second)).Draw(t, label("at"))),
	}
	long := rapid.Bool().Draw(t, label("long"))
	f.full = f.what == halfOpen && long
	switch {
	case f.what == pause && long:
		f.lasting = 2*k + margin
	case f.what == pause:
		f.lasting = k - margin
	case (f.what == freeze || f.what == clogs) && long:
		f.lasting = stall + maxPace + margin
	case f.what == freeze, f.what == clogs:
		f.lasting = stall - margin
	}
	return f
}

// near tells whether two moments are so close that nobody can say which was first.
func near(a, b time.Duration) bool { return (a - b).Abs() < margin+maxPace }

func TestLedgerAgreesWithTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "sessions")
		length := time.Duration(rapid.Int64Range(int64(time.Second), int64(30*time.Second)).Draw(rt, "length"))
		runs := time.Duration(rapid.Int64Range(int64(time.Second), int64(60*time.Second)).Draw(rt, "runs"))
		pace := time.Duration(rapid.Int64Range(int64(50*time.Millisecond), int64(maxPace)).Draw(rt, "pace"))
		fates := make([]fate, n)
		for i := range fates {
			fates[i] = drawFate(rt, i)
		}
		var wrong string
		synctest.Test(t, func(*testing.T) { wrong = agree(fates, length, runs, pace) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// agree runs the sessions and says in what the ledger and the truth differ.
func agree(fates []fate, length, runs, pace time.Duration) string {
	system := &fakeSystem{fate: func(n int) fate {
		if n < len(fates) {
			return fates[n]
		}
		return fate{}
	}}
	p := plan(scenarios.Session{Behaviour: "interactive", Length: scenarios.Always(length), Pace: scenarios.Always(pace)},
		scenarios.Arrival{Closed: &scenarios.Closed{Held: len(fates), Over: scenarios.Span(len(fates)) * scenarios.Span(time.Millisecond), Think: scenarios.Always(time.Hour)}})
	e, m := fakeEngine(p, system, someTargets())
	e.Start(context.Background())
	time.Sleep(runs)
	stats := stop(e)

	sessions := payloads[history.Session](m)
	if len(sessions) != len(fates) || stats.Due != uint64(len(fates)) || stats.Ended != stats.Due || stats.Held != 0 || stats.Opening != 0 {
		return fmt.Sprintf("%d sessions in the ledger of %d due: %+v", len(sessions), len(fates), stats)
	}
	seen := map[string]bool{}
	for _, s := range sessions {
		if seen[s.ID] {
			return s.ID + " ended twice"
		}
		seen[s.ID] = true
		var i int
		fmt.Sscanf(s.ID, "s/%d", &i)
		// Sessions arrive a millisecond apart, in order: the first to be opened is the first.
		if wrong := compare(s, system.links[i-1], length, runs); wrong != "" {
			return wrong
		}
	}
	return ""
}

func compare(s history.Session, l *fakeLink, length, runs time.Duration) string {
	f := l.fate
	until := runs - s.Open
	if s.Open > 0 && (near(f.at, until) || near(f.at, length) || near(length, until)) {
		return ""
	}
	if s.Open == 0 && near(runs, 5*time.Second) {
		return ""
	}
	if (f.what == freeze || f.what == clogs || f.what == pause) && f.at < length && length < until && f.at+f.lasting+margin > until {
		return "" // its script was over and it was still open: it depends on whether a line was owed
	}
	w := truth(f, length, until)
	if f.what == swallows && s.Lines.Sent == 2 {
		w.class = history.Stalled // nothing came after it, so it was waited for
	}
	if s.Class != w.class || s.Cut != w.cut || s.Failed != w.failed {
		return fmt.Sprintf("%+v of length %s in a run of %s:\ngot  %s, %q, failed %q (%s)\nwant %s, %q, failed %q", f, length, runs, s.Class, s.Cut, s.Failed, s.Reason, w.class, w.cut, w.failed)
	}
	if w.cut == history.CutKeepalive && s.End-s.Open-f.at > 2*k+f.latency {
		return fmt.Sprintf("%+v: noticed %s after it happened, two keep-alive intervals are %s", f, s.End-s.Open-f.at, 2*k)
	}
	if f.what == message && w.class == history.Dropped && !strings.Contains(s.Reason, "going down") {
		return fmt.Sprintf("the server's words are not in %q", s.Reason)
	}
	if s.Open == 0 {
		return ""
	}
	if diff := cmp.Diff(l.given.Ranges, s.Lines.Ranges); diff != "" || s.Lines.Acked != l.given.Count() || s.Lines.Sum != l.given.Sum {
		return fmt.Sprintf("%+v: acknowledged lines (-truth +ledger):\n%s", f, diff)
	}
	if (f.what == corrupts || f.what == swallows) && s.Lines.Sent > 2 && s.Class == history.Clean && s.Lines.Bad != 1 {
		return fmt.Sprintf("%+v: %d bad lines, want 1", f, s.Lines.Bad)
	}
	if s.ServerSession != "id-1" || !s.Recorded {
		return fmt.Sprintf("server session %q, recorded %t", s.ServerSession, s.Recorded)
	}
	return ""
}
