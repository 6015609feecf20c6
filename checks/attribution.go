package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// Cause is what explains one lost session or recording.
type Cause struct {
	// Found says that something explains it. What was merely going on at the time does not: the
	// cause must lie on the path of the session.
	Found bool `json:"found"`
	// Ambiguous says that several things explain it and nobody can say which.
	Ambiguous bool           `json:"ambiguous,omitempty"`
	Pod       history.PodRef `json:"pod,omitzero"`    // the pod whose end or trouble it was
	End       string         `json:"end,omitempty"`   // how that pod ended; empty: it lived
	By        []string       `json:"by,omitempty"`    // the fault or rollout behind it; none: by itself
	Text      string         `json:"text"`            // all of it in words
	Blind     bool           `json:"blind,omitempty"` // not found, but something could not be observed then

	sole  string // what every suspect names, as in By; empty: none, or they differ
	group string // what is said of several sessions with nearly the same cause; empty: Text
}

// suspect is one possible cause.
type suspect struct {
	pod    *pod
	number int32 // of the pod, for those on the path
	end    string
	span   span
	by     []string
	text   string
	group  string // as in Cause
	unsure bool   // nobody saw whether it was on the path
}

// attribute finds the cause of every lost session.
func (l *ledger) attribute() {
	l.findRoutes()
	l.findAuthAway()
	for i := range l.lost {
		c := l.causeOf(&l.lost[i])
		l.lost[i].cause = &c
	}
}

func (l *ledger) causeOf(ls *lostSession) Cause {
	s := &l.sessions[ls.session]
	w := ls.doubtful(s)
	suspects := l.suspects(ls, s, w)
	if len(suspects) == 0 {
		return l.unexplained(w)
	}
	return conclude(suspects)
}

// doubtful is the time in which the session's cause must have acted: for a drop between the last sign
// of life and the end, for a refusal from its start, for a stall while it was silent.
func (ls *lostSession) doubtful(s *session) span {
	switch s.class {
	case stalled:
		if ls.silent.length() > 0 {
			return ls.silent
		}
	case refused:
		return span{max(s.start, s.due), max(s.end, s.due)}
	}
	from := ls.lastHeard
	if from == 0 {
		from = max(s.open, s.end-watchSkew)
	}
	return span{min(from, s.end), s.end}
}

// suspects are the ends of pods on the path, and faults aimed at it; then what the path depends on; then, for
// sessions that only know the Service they went to, the pods behind it that were ending.
func (l *ledger) suspects(ls *lostSession, s *session, w span) []suspect {
	var found []suspect
	for _, i := range l.path(ls, s) {
		for _, x := range l.podSuspects(l.pods[i], w) {
			x.number = i
			found = append(found, x)
		}
	}
	found = ls.likelier(s, endedBy(found, w))
	if away := l.awaySuspects(w); ls.waitedForAuth() && len(away) > 0 {
		found = append(goneWithin(found, w), away...)
	}
	if len(found) == 0 && ls.waitedForAuth() {
		found = l.stillAway(s, w)
	}
	if len(found) == 0 {
		found = l.serverSuspects(s, w)
	}
	if len(found) == 0 {
		found = l.tunnelSuspects(ls, w)
	}
	if len(found) == 0 {
		found = l.noTunnelYet(ls, s, w)
	}
	if len(found) == 0 {
		found = l.authWaySuspects(ls, s, w)
	}
	if len(found) == 0 && (s.class == refused || ls.cut == history.CutMessage) {
		found = l.authSuspects(w)
	}
	if len(found) == 0 && s.proxy < 0 && s.class == refused {
		found = l.serviceSuspects(w)
	}
	return found
}

// endedBy leaves out, where several pods are suspects, those that still had time left to end, if another
// was really gone by then.
func endedBy(found []suspect, w span) []suspect {
	gone := slices.DeleteFunc(slices.Clone(found), func(x suspect) bool {
		return (x.end == endDeleted || x.end == endEvicted) && x.span.to > w.to+watchSkew
	})
	if len(gone) == 0 {
		return found
	}
	return gone
}

// likelier keeps, where several pods on the path are suspects, those that fit how the end looked: the
// connection itself ends with the proxy, a channel on a living connection with what is behind it.
func (ls *lostSession) likelier(s *session, found []suspect) []suspect {
	if len(found) < 2 || s.proxy < 0 {
		return found
	}
	proxy := ls.cut == history.CutReset || ls.cut == history.CutEOF
	if !proxy && ls.cut != history.CutChannel {
		return found
	}
	fits := slices.DeleteFunc(slices.Clone(found), func(x suspect) bool { return (x.number == s.proxy) != proxy })
	if len(fits) == 0 {
		return found
	}
	return fits
}

func (l *ledger) path(ls *lostSession, s *session) []int32 {
	var path []int32
	for _, i := range append([]int32{s.proxy, s.agent}, ls.hops...) {
		if i >= 0 && !slices.Contains(path, i) {
			path = append(path, i)
		}
	}
	return path
}

func (l *ledger) podSuspects(p *pod, w span) []suspect {
	if e, ok := p.endNear(w); ok {
		return []suspect{{pod: p, end: e.how, span: e.span, by: e.by, text: endText(p, e)}}
	}
	var found []suspect
	for _, f := range l.faults {
		if f.inject == never || f.onlyEndsPods() || f.aim(p) == aimNone || !l.acts(f).overlaps(w) {
			continue
		}
		found = append(found, suspect{pod: p, by: []string{"fault " + f.ID},
			text: fmt.Sprintf("fault %s (%s) acted on %s", f.ID, f.Name, podName(p))})
	}
	return found
}

// tunnelSuspects: the agent was without its tunnel, because the proxy at its other end was ending.
func (l *ledger) tunnelSuspects(ls *lostSession, w span) []suspect {
	if ls.agentUUID == "" {
		return nil
	}
	var found []suspect
	for _, c := range l.agents[ls.agentUUID] {
		if c.proxy < 0 || (c.state != "disconnected" && c.state != "gone") || !(span{c.at - watchSkew, c.at + tunnelGrace}).overlaps(w) {
			continue
		}
		p := l.pods[c.proxy]
		if e, ok := p.endNear(span{c.at - watchSkew, c.at}); ok {
			found = append(found, suspect{pod: p, end: e.how, by: e.by, text: "the agent lost its tunnel: " + endText(p, e)})
		}
	}
	return found
}

// tunnelGrace is how long an agent may need to find another proxy: its backoff grows to 8 s.
const tunnelGrace = 16 * time.Second

// authSuspects: opening a session, and a server that ends one by itself, depend on the auth pods, and these on their
// storage, where it is in the cluster.
func (l *ledger) authSuspects(w span) []suspect {
	found := l.awaySuspects(w)
	if len(found) > 0 {
		return found
	}
	for _, p := range l.pods {
		why, depends := map[string]string{"auth": "it depends on auth: ", "etcd": "it depends on auth, and that on its storage: "}[p.ref.Component]
		if !depends {
			continue
		}
		for _, x := range l.podSuspects(p, w) {
			x.text = why + x.text
			found = append(found, x)
		}
	}
	return found
}

// serviceSuspects: a session that was refused by a Service met one of the pods that were ending then.
func (l *ledger) serviceSuspects(w span) []suspect {
	var found []suspect
	for _, p := range l.pods {
		if p.ref.Component != "proxy" {
			continue
		}
		if e, ok := p.endNear(w); ok {
			found = append(found, suspect{pod: p, end: e.how, by: e.by, text: "the Service still led to it: " + endText(p, e)})
		}
	}
	return found
}

func (l *ledger) unexplained(w span) Cause {
	c := Cause{Text: "nothing explains it"}
	for _, b := range l.blind {
		if b.span.overlaps(w) && slices.Contains([]string{"pods", "nodes", "endpoints"}, b.what) {
			c.Blind, c.Text = true, "nothing explains it, but "+b.what+" could not be observed then"
		}
	}
	return c
}

func conclude(suspects []suspect) Cause {
	s := suspects[0]
	c := Cause{Found: true, Pod: s.pod.ref, End: s.end, By: s.by, Text: s.text, group: s.group}
	unsure := slices.ContainsFunc(suspects, func(x suspect) bool { return x.unsure })
	if len(s.by) == 1 && !unsure && !slices.ContainsFunc(suspects, func(x suspect) bool { return !slices.Equal(x.by, s.by) }) {
		c.sole = s.by[0]
	}
	var texts []string
	for _, other := range suspects {
		if !slices.Contains(texts, other.text) {
			texts = append(texts, other.text)
		}
		for _, by := range other.by {
			if !slices.Contains(c.By, by) {
				c.By = append(slices.Clone(c.By), by)
			}
		}
	}
	if len(texts) > 1 || len(s.by) > 1 || unsure {
		c.Ambiguous, c.group, c.Text = true, "", "ambiguous: "+strings.Join(texts, "; or ")
	}
	return c
}

// endText says in words how a pod ended and by what.
func endText(p *pod, e podEnd) string {
	s := fmt.Sprintf("%s %s at %s", podName(p), e.how, clock(e.span.from))
	switch len(e.by) {
	case 0:
		s += " by itself"
	default:
		s += " by " + strings.Join(e.by, " or ")
	}
	if e.detail != "" {
		s += ", " + e.detail
	}
	return s
}

func podName(p *pod) string {
	return firstText(p.ref.Name, p.ref.UID)
}

// clock gives a moment of the run to a tenth of a second.
func clock(t time.Duration) string { return t.Round(100 * time.Millisecond).String() }
