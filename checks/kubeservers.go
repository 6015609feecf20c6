package checks

import (
	"strings"

	"shakedown.dev/shakedown/history"
)

// addAudit keeps which server a Kubernetes session was served by: its session.start names it.
func (l *ledger) addAudit(subject string, d history.Audit) {
	l.audits++
	if d.Event == "session.start" && subject != "" && d.AgentUUID != "" {
		l.servedBy[subject] = d.AgentUUID
	}
}

// serverSuspects: a Kubernetes session goes through the proxy to a server of Kubernetes, which the auth pods are.
// Where the audit log names the server, it is that one; else any auth that was there can have been it, and the text
// says so unless there was but one.
func (l *ledger) serverSuspects(s *session, w span) []suspect {
	if !strings.HasPrefix(l.strings.name(s.kind), "kube-") {
		return nil
	}
	if pod, ok := l.serverPods[l.servedBy[s.id]]; ok {
		return l.servedThrough("it was served by ", pod, w)
	}
	var auths []int32
	for i, p := range l.pods {
		if life := p.life(l.last); p.ref.Component == "auth" && life.overlaps(span{max(s.start, s.due), w.to}) {
			auths = append(auths, int32(i))
		}
	}
	how := "it was served by one of the auths, of which "
	if len(auths) == 1 {
		how = "it was served by "
	}
	var found []suspect
	for _, i := range auths {
		found = append(found, l.servedThrough(how, i, w)...)
	}
	return found
}

func (l *ledger) servedThrough(how string, pod int32, w span) []suspect {
	found := l.podSuspects(l.pods[pod], w)
	for i := range found {
		found[i].number, found[i].text = pod, how+found[i].text
	}
	return endedBy(found, w)
}
