package runtest

import (
	"fmt"
	"time"

	"shakedown.dev/shakedown/history"
)

// serves says whether a proxy pod takes new sessions at t.
func (p *pod) serves(t time.Duration) bool {
	return p.ref.Component == "proxy" && t >= p.ready && (p.gone == 0 || t < p.deleting)
}

func (s *sim) of(component string) (out []*pod) {
	for _, p := range s.pods {
		if p.ref.Component == component {
			out = append(out, p)
		}
	}
	return out
}

// load draws the sessions: each goes through a proxy that serves when it is due, and is cut when that one goes.
func (s *sim) load() {
	at := time.Duration(0)
	for n := 1; ; n++ {
		at += time.Duration(s.rng.ExpFloat64() / s.Rate * float64(sec))
		if at >= loadTo-sec {
			break
		}
		s.due++
		s.session(n, at)
	}
}

func (s *sim) session(n int, due time.Duration) {
	var serving []*pod
	for _, p := range s.pods {
		if p.serves(due) {
			serving = append(serving, p)
		}
	}
	p := serving[s.rng.IntN(len(serving))]
	agents := s.of("agent")
	a := agents[s.rng.IntN(len(agents))]
	opening := s.opening(due)
	total := time.Duration(0)
	for _, ph := range opening {
		total += ph.Took
	}
	exit := 0
	d := history.Session{
		ID: fmt.Sprintf("terminals/%d", n), Stream: "terminals", Type: "ssh", Behaviour: "interactive", User: "load-1",
		Due: due, Start: due + time.Duration(s.rng.IntN(900))*time.Microsecond, Phases: opening,
		Proxy: p.ref, ProxyHow: "dialled", Agent: history.Agent{UUID: "agent-uuid-" + a.ref.Name, Host: a.ref.Name, Pod: a.ref},
		ServerSession: fmt.Sprintf("server-session-%d", n), Recorded: true, Class: history.Clean, Exit: &exit,
		Lines: history.Lines{Sent: 20, Acked: 20}, BytesSent: 800, BytesReceived: 1900,
	}
	d.Open = d.Start + total
	d.End = min(d.Open+time.Duration(s.rng.ExpFloat64()*float64(40*sec)), loadTo)
	s.cut(&d, p)
	s.add(d.Open, d.ID, history.SessionOpened{ID: d.ID, Stream: d.Stream, Due: d.Due, Start: d.Start, Open: d.Open, Proxy: d.Proxy, Agent: d.Agent})
	s.add(d.End, d.ID, d)
	s.recording(&d, a, n)
}

func (s *sim) opening(due time.Duration) []history.PhaseTime {
	slow := 1.0
	if due > 52*sec && due < 97*sec {
		slow = 1.6
	}
	took := func(ms float64) time.Duration {
		return time.Duration(slow * (ms + ms*s.rng.ExpFloat64()*0.3) * float64(time.Millisecond))
	}
	return []history.PhaseTime{{Phase: history.PhaseConnect, Took: took(1)}, {Phase: history.PhaseTLS, Took: took(8)}, {Phase: history.PhaseSSHProxy, Took: took(14)},
		{Phase: history.PhaseRoute, Took: took(9)}, {Phase: history.PhaseSSHNode, Took: took(16)}, {Phase: history.PhaseShell, Took: took(6)}}
}

// cut ends the session when its proxy goes, or silently where the run is to have such.
func (s *sim) cut(d *history.Session, p *pod) {
	switch {
	case p.gone > 0 && d.End > p.gone-sec/10:
		d.Class, d.Cut, d.Reason, d.Exit = history.Dropped, history.CutReset, "read tcp: connection reset by peer", nil
		d.LastHeard, d.End = p.gone-sec/5, p.gone-sec/10+time.Duration(s.rng.IntN(200))*time.Millisecond
	case s.Silent > 0 && d.End > 120*sec && d.Open < 118*sec:
		s.Silent--
		d.Class, d.Cut, d.Reason, d.Exit = history.Dropped, history.CutEOF, "EOF without exit status", nil
		d.End = 119*sec + time.Duration(s.rng.IntN(900))*time.Millisecond
		d.LastHeard = d.End - sec/2
	}
	if d.Open > d.End {
		d.Class, d.Cut, d.Failed, d.Open, d.Recorded = history.Refused, history.CutReset, history.PhaseSSHNode, 0, false
	}
}

func (s *sim) recording(d *history.Session, a *pod, n int) {
	if !d.Recorded {
		return
	}
	r := history.Recording{Session: d.ID, ServerSession: d.ServerSession, Class: history.RecComplete, Mode: "node", Storage: "emptyDir", Holder: a.ref,
		Started: true, Ended: true, Uploaded: true, Expected: 20, Found: 20, Settled: 3 * sec}
	if s.Missing > 0 && n%50 == 7 {
		s.Missing--
		r.Class, r.Uploaded, r.Found, r.Tail, r.Waited = history.RecMissing, false, 0, 20, 30*sec
	}
	s.add(min(d.End+4*sec, length), d.ID, r)
}

// watch adds what is looked at once a second: the generator, canaries, the control arm, endpoints.
func (s *sim) watch() {
	held := 0
	for t := time.Duration(0); t <= loadTo; t += sec {
		due := uint64(float64(s.due) * min(t.Seconds()/(loadTo-sec).Seconds(), 1))
		held = int(s.Rate * 40 * (1 - 1/(1+t.Seconds()/20)))
		s.add(t, "", history.Generator{CPU: 0.2 + 0.05*s.rng.Float64(), Streams: []history.StreamSample{{Name: "terminals", Target: s.Rate, Due: due, Started: due, Opened: due, Held: held}}})
		s.add(t, "", history.Control{Target: s.of("agent")[0].ref.Name, Took: 12 * time.Millisecond})
		for _, p := range s.of("proxy") {
			if p.ready <= t && (p.gone == 0 || t < p.gone) {
				s.add(t, p.ref.Name, history.Probe{Pod: p.ref, Took: 45 * time.Millisecond})
			}
		}
	}
	for _, t := range []time.Duration{0, 50 * sec, 52 * sec, 62 * sec, 69 * sec, 84 * sec, 97 * sec} {
		var ready []history.PodRef
		for _, p := range s.of("proxy") {
			if p.serves(t) {
				ready = append(ready, p.ref)
			}
		}
		s.add(t, "", history.Endpoints{Service: "teleport", Component: "proxy", Ready: ready})
	}
	s.add(0, "", history.Replicas{Component: "auth", Desired: 2, Ready: 2})
}
