package load

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/load/timers"
	"shakedown.dev/shakedown/scenarios"
)

// session is one synthetic session from the moment it was due until it ended.
type session struct {
	e      *Engine
	stream *stream
	drawn  scenarios.Drawn
	how    behaviour
	id     string
	on     *bundle // the connection that it shares; nil: it has one of its own
	to     route
	via    string // how the proxy is known, if it was not dialled by its own address
	first  string // what is typed to make the far side ready

	due, start, open time.Duration

	link  link
	entry timers.Entry

	mu      sync.Mutex
	state   state
	checker *lines.Checker // of terminals; nil: what comes is only counted
	script  script         // nil: none
	until   time.Duration  // opening: when it times out; open: when its script is over

	heard     time.Duration // when anything last came
	asked     time.Duration // when the keep-alive that waits was sent; 0: none waits
	ended     time.Duration // when the input was ended; 0: not yet
	unasked   bool          // the protocol has no question for a sign of life
	planned   time.Duration // when act was to be called next
	blocked   time.Duration // since when the write under way waits
	patient   time.Duration // until when nothing is given up, because this program was late itself
	writing   bool          // a write is under way
	cutShort  bool
	silent    bool // given up, because it owed an answer for too long
	left      bool // the run is over; what opens now is closed at once
	abandoned bool // given up, because the run is over
	forced    *ended
	gaveUp    time.Duration // when it was given up; 0: it was not

	atEnd func() // set when the run cuts it short

	server   string // id of the session in the audit log
	words    string // last words that came and were not the session's own
	said     time.Duration
	gaps     []history.Gap
	longest  time.Duration
	sent     int64
	received int64
}

// state is where a session stands.
type state uint8

const (
	opening state = iota
	opened        // it does what its script says
	over
)

// maxGaps bounds how many silences of one session are written down; the longest is always known.
const maxGaps = 32

// maxWords bounds what is kept of the server's words.
const maxWords = 160

func (s *session) now() time.Duration { return s.e.history.Now() }

// dial opens the session; it runs in a goroutine that ends then, because handshakes leave a deep stack behind.
func (s *session) dial(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.drawn.Session.Timeout.Duration())
	defer cancel()
	what, first := launching(s.drawn.Session, s.how, lines.Token(s.drawn.Seed))
	what.On, what.Length = s.on, s.drawn.Length
	what.SPDY = s.drawn.Session.Protocol == "spdy"
	l, err := s.e.openers[s.drawn.Session.Kind].open(ctx, s.to, what)
	if err != nil {
		s.refuse(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.link, s.heard, s.first = l, now, first
	s.findProxy()
	s.until = s.start + s.drawn.Session.Timeout.Duration()
	if !s.how.terminal {
		s.begin(now)
	} else {
		s.checker = &lines.Checker{Token: lines.Token(s.drawn.Seed), Foreign: s.foreign}
	}
	go s.read()
	if s.left {
		s.abandon(tooLate)
		return
	}
	if first != "" {
		s.write([]byte(first))
	}
	s.plan()
}

// How the pod of a session is known, as history.Session.ProxyHow has it.
const (
	viaDialled = "dialled" // its own address was dialled
	viaService = "service" // only the Service is known
	viaServer  = "server"  // the proxy behind the Service said so, by the names in its host certificate
)

// findProxy finds out which pod is behind the Service: a proxy's host certificate has its host name, which in a
// cluster is the pod's.
func (s *session) findProxy() {
	l, ok := s.link.(interface{ ProxyNames() []string })
	if s.via != viaService || !ok {
		return
	}
	names := l.ProxyNames()
	for _, p := range s.e.cfg.Targets.Proxies() {
		if slices.ContainsFunc(names, func(name string) bool { return name == p.Pod.Name || strings.HasPrefix(name, p.Pod.Name+".") }) {
			s.to.Proxy.Pod, s.via = p.Pod, viaServer
			return
		}
	}
}

// begin makes the session open: the far side has answered. An answer to what was given up already comes too late.
func (s *session) begin(now time.Duration) {
	if s.gaveUp > 0 {
		return
	}
	s.state, s.open = opened, max(now, 1) // 0 means never
	s.until = never
	if s.drawn.Length > 0 {
		s.until = now + s.drawn.Length
	}
	if s.how.script != nil {
		s.script = s.how.script(s.drawn)
		s.script.begin(now)
	}
	s.e.opened(s)
}

// read takes what comes until the session is over. It is the session's only goroutine of its own.
func (s *session) read() {
	buf := make([]byte, cmp.Or(s.how.buffer, 512))
	slow, _ := s.script.(slow)
	for {
		n, err := s.link.Read(buf)
		if n > 0 {
			s.take(buf[:n])
		}
		if slow != nil && err == nil {
			sleep(s.e.life, slow.pause(s.now()))
		}
		if err != nil {
			s.finish()
			return
		}
	}
}

func (s *session) take(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.hear(now)
	s.received += int64(len(p))
	if s.state == over {
		return
	}
	wasOpen := s.state == opened
	var tally *lines.Tally
	if s.checker != nil {
		_, _ = s.checker.Write(p)
		tally = &s.checker.Tally
	}
	if wasOpen && s.script != nil {
		before := s.script.owed()
		s.script.output(now, p, tally)
		if before > 0 && s.script.owed() != before {
			s.silence(before, now)
		}
	}
	// Only what can change when to act is worth a look at the queue.
	if !wasOpen && s.state == opened || s.ended > 0 || s.how.shell || s.over(now) {
		s.plan()
	}
}

// hear notes a sign of life.
func (s *session) hear(now time.Duration) { s.heard = now }

// silence notes how long an answer took that was owed.
func (s *session) silence(from, now time.Duration) {
	took := now - from
	s.longest = max(s.longest, took)
	if took >= s.e.bounds.gap && len(s.gaps) < maxGaps {
		s.gaps = append(s.gaps, history.Gap{From: from, Took: took})
	}
}

// foreign takes a line that is not the session's own: the mark of the beginning, or words of the server.
func (s *session) foreign(text []byte) {
	if s.state == opening {
		if id, ok := marked(text); ok {
			s.server = id
			s.begin(s.now())
		}
		return
	}
	s.words, s.said = string(text[:min(len(text), maxWords)]), s.now()
}

// marked finds the session's id between the marks. The command that prints it, echoed, is not the mark.
func marked(text []byte) (string, bool) {
	i := bytes.LastIndex(text, []byte(markBegin))
	if i < 0 {
		return "", false
	}
	id, _, ok := strings.Cut(string(text[i+len(markBegin):]), markEnd)
	return id, ok && !strings.ContainsAny(id, "$ ;")
}

// over tells whether the script is over.
func (s *session) over(now time.Duration) bool {
	return now >= s.until || s.cutShort || s.script != nil && s.script.done()
}
