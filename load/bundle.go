package load

import (
	"context"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh"
)

// bundle is one connection that several sessions share, each with a channel of its own: behaviour channels. It is
// opened by the first that asks, and closed when the last has let go of it.
type bundle struct {
	once sync.Once
	conn *ssh.Conn
	err  error

	mu      sync.Mutex
	using   int           // sessions that may still use the connection
	waiting int           // sessions that are not in the ledger yet
	worst   history.Class // of those that are
}

// channelStream keeps what tells a bundle's sessions apart from what a session draws for itself.
const channelStream = 3

// bundled are the sessions of one connection: s, and others like it that have a seed and an id of their own.
func (s *session) bundled(channels int) []*session {
	on := &bundle{using: channels, waiting: channels}
	seeds := rand.New(rand.NewPCG(s.drawn.Seed, channelStream))
	all := []*session{s}
	for range channels - 1 {
		x := &session{e: s.e, stream: s.stream, drawn: s.drawn, how: s.how, due: s.due, to: s.to}
		x.drawn.Seed = seeds.Uint64()
		all = append(all, x)
	}
	for i, x := range all {
		x.on, x.id = on, s.stream.id(s.drawn.N)+"#"+strconv.Itoa(i+1)
	}
	return all
}

// connect gives the connection, and opens it if nobody has.
func (b *bundle) connect(open func() (*ssh.Conn, error)) (*ssh.Conn, error) {
	b.once.Do(func() { b.conn, b.err = open() })
	return b.conn, b.err
}

// release is called once by each session that has asked for the connection.
func (b *bundle) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.using--; b.using == 0 && b.conn != nil {
		b.conn.Close()
	}
}

// leave is called by each session when it is in the ledger. It says whether that was the arrival's last, and the
// class of the arrival: refused or ours if one of its sessions was. A session of its own, on nil, always is the last.
func (b *bundle) leave(class history.Class) (history.Class, bool) {
	if b == nil {
		return class, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.worst == "" || class == history.Refused || class == history.Ours {
		b.worst = class
	}
	b.waiting--
	return b.worst, b.waiting == 0
}

// share opens a session on a connection that others share.
func (o *sshOpener) share(ctx context.Context, to route, what launch) (link, error) {
	conn, err := what.On.connect(func() (*ssh.Conn, error) {
		return o.clients[to.User].Connect(ctx, to.Proxy.SSH, ssh.Target{Node: to.Node.UUID})
	})
	var s *ssh.Session
	if err == nil {
		s, err = conn.Start(ctx, ssh.Start{PTY: what.Terminal, Command: what.Command})
	}
	if err != nil {
		what.On.release()
		return nil, sshError(err)
	}
	l := &channelLink{sshLink: sshLink{s}, on: what.On, came: make(chan []byte), gone: make(chan struct{})}
	go l.pump()
	return l, nil
}

// channelLink is an SSH session on a connection that others share. Closing it must not close the connection, so what
// comes passes through a goroutine that a reader can leave.
type channelLink struct {
	sshLink
	on   *bundle
	came chan []byte // closed when the channel has ended
	gone chan struct{}
	once sync.Once
	rest []byte
	left bool // the reader left before the end
}

func (l *channelLink) pump() {
	defer close(l.came)
	for {
		buf := make([]byte, 512)
		n, err := l.Session.Read(buf)
		if n > 0 {
			select {
			case l.came <- buf[:n]:
			case <-l.gone: // read on: what is not read stops the others
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *channelLink) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		select {
		case b, ok := <-l.came:
			if !ok {
				return 0, io.EOF
			}
			l.rest = b
		case <-l.gone:
			l.left = true
			return 0, io.EOF
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *channelLink) Ended(ctx context.Context) ended {
	if l.left {
		return ended{Cut: history.CutEOF, Reason: "closed by us"}
	}
	return l.sshLink.Ended(ctx)
}

// Close closes the channel, and the connection if it was the last. It does not wait for a far side that is gone.
func (l *channelLink) Close() error {
	l.once.Do(func() {
		close(l.gone)
		go func() {
			l.Session.Close()
			l.on.release()
		}()
	})
	return nil
}
