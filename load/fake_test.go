package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// memory is a recorder that keeps what it is given.
type memory struct {
	start time.Time

	mu     sync.Mutex
	events []history.Event
}

func newMemory() *memory { return &memory{start: time.Now()} }

func (m *memory) Record(e history.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.At == 0 {
		e.At = m.Now()
	}
	m.events = append(m.events, e)
}

func (m *memory) Now() time.Duration              { return time.Since(m.start) }
func (m *memory) Since(t time.Time) time.Duration { return t.Sub(m.start) }
func (m *memory) all() []history.Event            { m.mu.Lock(); defer m.mu.Unlock(); return m.events }
func payloads[P history.Payload](m *memory) (out []P) {
	for _, e := range m.all() {
		if p, ok := e.Data.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// fixed are targets that do not change.
type fixed struct {
	proxies  []Proxy
	agents   []history.Agent
	pods     []KubePod
	controls []Control
	service  Proxy
}

func (f fixed) Proxies() []Proxy        { return f.proxies }
func (f fixed) Service() Proxy          { return f.service }
func (f fixed) Agents() []history.Agent { return f.agents }
func (f fixed) KubePods() []KubePod     { return f.pods }
func (f fixed) Controls() []Control     { return f.controls }

func someTargets() fixed {
	return fixed{
		proxies: []Proxy{
			{Pod: history.PodRef{Name: "proxy-a", UID: "a"}, Ready: true},
			{Pod: history.PodRef{Name: "proxy-b", UID: "b"}, Ready: true},
			{Pod: history.PodRef{Name: "proxy-c", UID: "c"}},
		},
		agents: []history.Agent{{UUID: "u0", Host: "agent-0"}, {UUID: "u1", Host: "agent-1"}},
	}
}

// trouble is what befalls one session of the fake system.
type trouble string

const (
	fine      trouble = "fine"
	reset     trouble = "reset"      // the connection is reset
	eof       trouble = "eof"        // the connection is closed without exit status
	channel   trouble = "channel"    // the channel is closed without exit status
	message   trouble = "message"    // the server says that it ends the session, and does
	halfOpen  trouble = "half-open"  // the peer is gone, without a FIN
	pause     trouble = "pause"      // nothing passes for a while, not even keep-alives
	freeze    trouble = "freeze"     // keep-alives are answered, the terminal is not, for a while
	clogs     trouble = "clogs"      // keep-alives are answered, but nothing that is typed is read, for a while
	quits     trouble = "quits"      // the program exits by itself
	badStatus trouble = "bad-status" // the program ends when told to, with another status
	killed    trouble = "killed"     // the program is killed by a signal
	corrupts  trouble = "corrupts"   // one line comes back changed
	swallows  trouble = "swallows"   // one line never comes back
	trickles  trouble = "trickles"   // what comes back comes a few bytes at a time
	refuses   trouble = "refuses"    // the session is refused while it is opened
	mute      trouble = "mute"       // it opens, and the shell says nothing
	tardy     trouble = "tardy"      // it opens, and the shell answers when it was just given up
	files     trouble = "files"      // our own descriptors run out
)

// fate is a session's, as the fake system knows it: it is the truth that the ledger is held against.
type fate struct {
	what    trouble
	at      time.Duration // after the far side was ready
	lasting time.Duration // of pause, freeze and clogs
	full    bool          // of half-open: what is typed is not even taken by our own side's buffers
	latency time.Duration
}

// fakeSystem opens sessions whose fate it knows.
type fakeSystem struct {
	fate func(n int) fate

	mu    sync.Mutex
	n     int
	links []*fakeLink
}

func (f *fakeSystem) open(ctx context.Context, _ route, _ launch) (link, error) {
	f.mu.Lock()
	l := &fakeLink{fate: f.fate(f.n), out: make(chan []byte), in: make(chan typed, 1000), gone: make(chan struct{})}
	f.n++
	f.links = append(f.links, l)
	f.mu.Unlock()
	if !sleep(ctx, l.fate.latency) {
		return nil, &openError{Phase: history.PhaseConnect, Cut: history.CutTimeout, Err: ctx.Err()}
	}
	switch l.fate.what {
	case refuses:
		return nil, &openError{Phase: history.PhaseRoute, Cut: history.CutUnrouted, Err: errors.New("no such node")}
	case files:
		return nil, &openError{Phase: history.PhaseConnect, Cut: history.CutProtocol, Err: syscall.EMFILE}
	}
	go l.run()
	return l, nil
}

// fakeLink is one session of the fake system.
type fakeLink struct {
	fate  fate
	ready atomic.Pointer[time.Time] // when the far side became ready; nil: not yet
	out   chan []byte
	in    chan typed
	rest  []byte
	gone  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	end    ended
	n      int // lines typed
	given  lines.Tally
	closed bool // by us
}

// over ends the link as seen from here.
func (l *fakeLink) over(e ended) {
	l.once.Do(func() {
		l.mu.Lock()
		l.end = e
		l.mu.Unlock()
		close(l.gone)
	})
}

// struck says whether the trouble is in force.
func (l *fakeLink) struck(what trouble) bool {
	ready := l.ready.Load()
	if l.fate.what != what || ready == nil {
		return false
	}
	since := time.Since(*ready)
	return since >= l.fate.at && (l.fate.lasting == 0 || since < l.fate.at+l.fate.lasting)
}

// hold waits while nothing passes. It is false when nothing will pass any more.
func (l *fakeLink) hold(whats ...trouble) bool {
	for _, what := range whats {
		for l.struck(what) {
			if what == halfOpen {
				<-l.gone
				return false
			}
			select {
			case <-l.gone:
				return false
			case <-time.After(time.Until(l.ready.Load().Add(l.fate.at + l.fate.lasting))):
			}
		}
	}
	return true
}

func (l *fakeLink) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		select {
		case <-l.gone:
			return 0, io.EOF
		case l.rest = <-l.out:
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *fakeLink) Write(p []byte) (int, error) {
	if !l.hold(clogs) || l.fate.full && !l.hold(halfOpen) {
		return 0, io.ErrClosedPipe
	}
	l.in <- typed{bytes.Clone(p), time.Now().Add(l.fate.latency)}
	return len(p), nil
}

// typed is on its way to the far side.
type typed struct {
	text []byte
	at   time.Time
}

// run is the far side: it serves what arrives, in order.
func (l *fakeLink) run() {
	for {
		select {
		case <-l.gone:
			return
		case x := <-l.in:
			time.Sleep(time.Until(x.at))
			l.serve(x.text)
		}
	}
}

func (l *fakeLink) say(p []byte) bool {
	select {
	case l.out <- p:
		return true
	case <-l.gone:
		return false
	}
}

// A line that trickles comes in so many pieces, so far apart: together sooner than the next is typed.
const (
	pieces = 5
	apart  = 8 * time.Millisecond
)

// trickle says p in pieces.
func (l *fakeLink) trickle(p []byte) bool {
	for piece := range slices.Chunk(p, len(p)/pieces+1) {
		if !l.say(piece) {
			return false
		}
		time.Sleep(apart)
	}
	return true
}

func (l *fakeLink) serve(p []byte) {
	switch {
	case !l.hold(halfOpen, pause, freeze):
	case bytes.HasPrefix(p, []byte("stty")):
		l.begin(p)
	case string(p) == endOfInput:
		e := ended{Exited: true}
		if l.fate.what == badStatus {
			e.Status = 3
		}
		l.over(e)
	default:
		l.echo(p)
	}
}

func (l *fakeLink) begin(typed []byte) {
	if l.fate.what == mute || l.fate.what == tardy {
		return
	}
	l.say(typed) // a terminal echoes at first
	now := time.Now()
	l.ready.Store(&now)
	if l.fate.at > 0 {
		go l.befall()
	}
	l.say([]byte("motd\r\n" + markBegin + "id-1" + markEnd + "\r\n"))
}

// befall ends the session when its time has come.
func (l *fakeLink) befall() {
	select {
	case <-l.gone:
		return
	case <-time.After(l.fate.at):
	}
	switch l.fate.what {
	case reset:
		l.over(ended{Cut: history.CutReset, Reason: "connection reset by peer"})
	case eof:
		l.over(ended{Cut: history.CutEOF, Reason: "EOF"})
	case channel:
		l.over(ended{Cut: history.CutChannel, Reason: "channel closed"})
	case quits:
		l.over(ended{Exited: true, Status: 7})
	case killed:
		l.over(ended{Exited: true, Status: 128, Signal: "HUP"})
	case message:
		l.say([]byte("the server is going down\r\n"))
		l.over(ended{Cut: history.CutEOF, Reason: "EOF"})
	}
}

// echo gives a line back, or not, and knows which it gave.
func (l *fakeLink) echo(p []byte) {
	l.mu.Lock()
	l.n++
	n := l.n
	l.mu.Unlock()
	if n == 2 && l.fate.what == swallows {
		return
	}
	out := bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))
	wrong := n == 2 && l.fate.what == corrupts
	if wrong {
		out[len(out)-4] ^= 1
	}
	say := l.say
	if l.fate.what == trickles {
		say = l.trickle
	}
	if say(out) && !wrong {
		l.mu.Lock()
		l.given.Add(uint64(n), bytes.TrimSpace(p))
		l.mu.Unlock()
	}
}

func (l *fakeLink) Ping(ctx context.Context) error {
	if !sleep(ctx, l.fate.latency) {
		return ctx.Err()
	}
	if !l.hold(halfOpen, pause) {
		return io.EOF
	}
	select {
	case <-l.gone:
		return io.EOF
	default:
		return ctx.Err()
	}
}

func (l *fakeLink) Close() error {
	if l.fate.what == tardy {
		l.say([]byte(markBegin + "id-1" + markEnd + "\r\n"))
		time.Sleep(l.fate.latency + time.Millisecond)
	}
	l.over(ended{Cut: history.CutEOF, Reason: "closed by us"})
	return nil
}

func (l *fakeLink) CloseWrite() error { return nil }

func (l *fakeLink) Ended(context.Context) ended {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *fakeLink) Silent(context.Context) string     { return "somewhere" }
func (l *fakeLink) ServerSession() string             { return "" }
func (l *fakeLink) Addresses() (local, remote string) { return "here", "there" }

func (l *fakeLink) Phases() []history.PhaseTime {
	return []history.PhaseTime{{Phase: history.PhaseConnect, Took: l.fate.latency}, {Phase: history.PhaseShell}}
}

// plan makes a plan of one stream.
func plan(s scenarios.Session, a scenarios.Arrival) *scenarios.Plan {
	if s.Kind == "" {
		s.Kind = scenarios.SSH
	}
	s.Timeout, s.LineBytes = scenarios.Span(5*time.Second), 64
	if s.Keepalive == 0 {
		s.Keepalive = scenarios.Span(2 * time.Second)
	}
	return &scenarios.Plan{
		Streams: []scenarios.StreamPlan{{
			Stream: scenarios.Stream{Name: "s", Mix: []scenarios.Weighted{{Weight: 1, Session: s}}, Arrival: a}, Seed: 1,
		}},
		Validity: scenarios.Validity{
			LateP99: scenarios.Span(50 * time.Millisecond), Stall: scenarios.Span(10 * time.Second),
			Gap: scenarios.Span(2 * time.Second), Probe: scenarios.Span(time.Second),
		},
	}
}

// fakeEngine is an engine over a fake system.
func fakeEngine(p *scenarios.Plan, system opener, t Targets) (*Engine, *memory) {
	m := newMemory()
	e := newEngine(Config{Plan: p, History: m, Targets: t})
	e.openers = map[string]opener{}
	for _, kind := range scenarios.SessionKinds() {
		e.openers[kind] = system
	}
	e.canary = func(context.Context, Proxy, history.Agent) *openError { return nil }
	return e, m
}

// stop stops an engine and lets the fake system's goroutines end too; one that never ends fails the test.
func stop(e *Engine) Stats {
	stats := e.Stop(context.Background())
	time.Sleep(time.Minute)
	return stats
}
