package checks

import (
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// An agent reaches its auth through a proxy, any of them, and nobody sees which. When that one ends, sessions through
// others are refused by the agent until it has found another way; a running one whose recording goes straight to the
// auth is ended by it after ten tries. So it is known that a proxy's end can lie on the path, and not that it did.

// goneWords are gRPC's words for a connection that is gone: the auth is what an agent speaks gRPC to. Teleport hands
// on the text with or without the code.
var goneWords = []string{"code = Unavailable", "connection error:", "error reading from server", "error reading server preface", "transport is closing", "client connection is closing"}

// lostAuth says whether the agent itself said that its connection to the auth was gone.
func (ls *lostSession) lostAuth() bool {
	behindTheProxy := ls.failed == history.PhaseShell || ls.failed == "" && ls.cut == history.CutMessage
	return behindTheProxy && slices.ContainsFunc(goneWords, func(words string) bool { return strings.Contains(ls.reason, words) })
}

// unlistedWords are a proxy's for an agent that is not among the nodes which the auth lists: one that could not announce
// itself for as long as it is listed. Without a tunnel it is listed, and other words are said.
const unlistedWords = "unable to locate node"

// lapsed says whether the agent was not registered any more.
func (ls *lostSession) lapsed() bool {
	return ls.unrouted() && strings.Contains(ls.reason, unlistedWords)
}

// authWaySuspects: the agent had lost its auth, and these are the proxies through which its connection may have gone, the
// session's own among them, which may be well again: what befell them came after the last session for which the agent
// reached the auth.
func (l *ledger) authWaySuspects(ls *lostSession, s *session, w span) []suspect {
	what, listed := "", time.Duration(0)
	switch {
	case s.agentID == 0:
	case ls.lostAuth():
		what = "had lost its auth"
	case ls.waitedForAuth():
		what = "waited for its auth"
	case ls.lapsed():
		// Listed until then, it had announced itself at most so long before, and perhaps not since.
		what, listed = "was not registered any more", orDefault(l.start.Bounds.Listed, listedFor)
	}
	if what == "" {
		return nil
	}
	since := span{max(l.reachedAuth(s.agentID, w.to)-listed, w.from-authReturn-listed), w.to}
	found := slices.Clone(l.authSuspects(since))
	away := len(l.awaySuspects(since)) > 0
	for i := range found {
		found[i].unsure = !away && found[i].pod.ref.Component == "auth" // of several, nobody knows which it was
	}
	for _, x := range l.maybeThrough(since) {
		x.text = "its agent " + what + ", and its way there may have led through " + x.text
		found = append(found, x)
	}
	return goneWithin(found, span{since.from, w.to + watchSkew}) // a watch tells late, never early
}

// maybeThrough is what befell proxies in w, through which an agent may have reached its auth.
func (l *ledger) maybeThrough(w span) []suspect {
	var found []suspect
	for _, p := range l.pods {
		if p.ref.Component != "proxy" {
			continue
		}
		for _, x := range l.podSuspects(p, w) {
			x.unsure = true
			found = append(found, x)
		}
	}
	return found
}

// recordingWaySuspects: in mode node-sync an agent sends what it records straight to the auth, through whichever proxy,
// as long as the session lasts.
func (l *ledger) recordingWaySuspects(r *recording) []suspect {
	if l.strings.name(r.mode) != "node-sync" || r.session < 0 {
		return nil
	}
	s := &l.sessions[r.session]
	w := span{max(s.open, s.start), s.end}
	found := goneWithin(l.maybeThrough(w), span{w.from, w.to + watchSkew})
	for i := range found {
		found[i].text = "its agent sent it to the auth, and may have done so through " + found[i].text
	}
	return found
}

// reachedAuth is when an agent last opened a session before a moment, for which it needs the auth; 0: never.
func (l *ledger) reachedAuth(agentID int32, before time.Duration) time.Duration {
	if l.agentOpens == nil {
		l.agentOpens = map[int32][]time.Duration{}
		for i := range l.sessions {
			if s := &l.sessions[i]; s.open > 0 && s.agentID != 0 {
				l.agentOpens[s.agentID] = append(l.agentOpens[s.agentID], s.open)
			}
		}
		for _, opens := range l.agentOpens {
			slices.Sort(opens)
		}
	}
	opens := l.agentOpens[agentID]
	if n := countTo(opens, before); n > 0 {
		return opens[n-1]
	}
	return 0
}
