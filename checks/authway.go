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

// authWaySuspects: the agent had lost its auth, and these are the proxies, not on the session's own path, through which
// its connection may have gone: what befell them came after the last session for which it reached the auth.
func (l *ledger) authWaySuspects(ls *lostSession, s *session, w span) []suspect {
	said := ls.lostAuth()
	if s.agentID == 0 || !said && !ls.waitedForAuth() {
		return nil
	}
	found := slices.Clone(l.authSuspects(w))
	since := span{max(l.reachedAuth(s.agentID, w.to), w.from-authReturn), w.to}
	for i, p := range l.pods {
		if p.ref.Component != "proxy" || int32(i) == s.proxy {
			continue
		}
		for _, x := range l.podSuspects(p, since) {
			x.unsure = true
			x.text = "its agent waited for the auth and may have reached it through " + x.text
			if said {
				x.text = strings.Replace(x.text, "waited for", "had lost", 1)
			}
			found = append(found, x)
		}
	}
	return goneWithin(found, span{since.from, w.to + watchSkew}) // a watch tells late, never early
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
