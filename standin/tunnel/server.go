package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil"
)

// ServerConfig is what a proxy's tunnel server needs.
type ServerConfig struct {
	Cluster   string
	HostKey   ssh.Signer
	HostCAs   func(context.Context) ([]ssh.PublicKey, error)
	UserCAs   func(context.Context) ([]ssh.PublicKey, error) // nil: no users
	DialAuth  func(context.Context) (io.ReadWriteCloser, error)
	Proxies   func() []string // UUIDs of all proxies known now
	Offline   time.Duration   // a tunnel without a heartbeat for so long is invalid
	Connected *prometheus.GaugeVec
	Log       *slog.Logger
}

// Server accepts agents and opens connections through them.
type Server struct {
	cfg ServerConfig

	mu    sync.Mutex
	conns map[agentKey][]*agentConn
}

type agentKey struct{ uuid, kind string }

// NewServer gives a server without agents.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg, conns: map[agentKey][]*agentConn{}}
}

// Handle serves one incoming connection until it ends or ctx does.
func (s *Server) Handle(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	sconn, chans, reqs, err := sshutil.Handshake(conn, s.sshConfig(ctx))
	if err != nil {
		s.cfg.Log.Debug("agent refused", "remote", conn.RemoteAddr(), "err", err)
		return
	}
	s.cfg.Log.Debug("agent connected", "remote", conn.RemoteAddr(), "server", sconn.Permissions.Extensions["uuid"])
	// The real proxy asks every agent; the answer is not used here.
	go sconn.SendRequest(requestVersion, true, nil)
	sshutil.Serve(ctx, sconn, chans, reqs, s)
}

func (s *Server) sshConfig(ctx context.Context) *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{
		Config:        sshutil.Algorithms(),
		ServerVersion: sshutil.ServerVersion,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return s.authenticate(ctx, meta, key)
		},
	}
	cfg.AddHostKey(s.cfg.HostKey)
	return cfg
}

// Channel takes the heartbeat channel, by which a connection becomes a tunnel, and refuses others.
func (s *Server) Channel(ctx context.Context, conn *ssh.ServerConn, ch ssh.NewChannel) (sshutil.Session, <-chan *ssh.Request) {
	switch ch.ChannelType() {
	case channelHeartbeat:
		kind, ok := kindOf(conn.Permissions.Extensions["role"])
		if !ok {
			ch.Reject(ssh.ConnectionFailed, fmt.Sprintf("unsupported role %v", conn.Permissions.Extensions["role"]))
			break
		}
		go s.serveAgent(ctx, conn, ch, kind)
	case channelTransport:
		go s.serveTransport(ctx, ch)
	case "session":
		ch.Reject(ssh.ConnectionFailed, "Cannot open new SSH session on reverse tunnel. Are you connecting to the right port?")
	default:
		ch.Reject(ssh.ConnectionFailed, fmt.Sprintf("reversetunnel received unknown channel request %v", ch.ChannelType()))
	}
	return nil, nil
}

func kindOf(role string) (string, bool) {
	switch role {
	case "Node":
		return KindNode, true
	case "Kube":
		return KindKube, true
	}
	return "", false
}

// Request refuses global requests.
func (s *Server) Request(_ *ssh.ServerConn, req *ssh.Request) { sshutil.RefuseRequest(req) }

func (s *Server) serveAgent(ctx context.Context, conn *ssh.ServerConn, nch ssh.NewChannel, kind string) {
	ch, reqs, err := nch.Accept()
	if err != nil {
		conn.Close()
		return
	}
	a := &agentConn{ssh: conn, key: agentKey{conn.Permissions.Extensions["uuid"], kind}, heartbeat: ch, news: make(chan []string, 4)}
	s.add(a)
	defer s.remove(a)
	a.serve(ctx, s.cfg, reqs)
}

func (s *Server) add(a *agentConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[a.key] = append(s.conns[a.key], a)
}

func (s *Server) remove(a *agentConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.conns[a.key][:0]
	for _, other := range s.conns[a.key] {
		if other != a {
			kept = append(kept, other)
		}
	}
	if s.conns[a.key] = kept; len(kept) == 0 {
		delete(s.conns, a.key)
	}
}

// all lists every agent connection of the moment.
func (s *Server) all() []*agentConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*agentConn
	for _, conns := range s.conns {
		out = append(out, conns...)
	}
	return out
}

// Announce tells every agent of these proxies.
func (s *Server) Announce(proxies []string) {
	for _, a := range s.all() {
		select {
		case a.news <- proxies:
		default: // it will be told again at the next sync
		}
	}
}

// AdviseReconnect tells all agents at once to connect elsewhere and waits for their answers or ctx.
func (s *Server) AdviseReconnect(ctx context.Context) {
	var wg sync.WaitGroup
	for _, a := range s.all() {
		wg.Go(func() { a.ssh.SendRequest(requestReconnect, true, nil) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// ErrNoTunnel means that no agent of that server is connected here.
var ErrNoTunnel = errors.New("no tunnel connection found")

// Dial opens a connection to the server with this UUID; address is one of the special addresses or that of the server.
func (s *Server) Dial(uuid, kind, address string) (net.Conn, error) {
	id := uuid + "." + s.cfg.Cluster
	a := s.pick(agentKey{uuid, kind})
	if a == nil {
		return nil, fmt.Errorf("%w: no %s reverse tunnel for %s found", ErrNoTunnel, kind, id)
	}
	return a.dial(dialRequest{Address: address, ServerID: id, ConnType: kind})
}

// Has reports whether an agent of that server is connected here.
func (s *Server) Has(uuid, kind string) bool { return s.pick(agentKey{uuid, kind}) != nil }

// pick prefers the newest valid tunnel and falls back to the newest invalid one.
func (s *Server) pick(key agentKey) *agentConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := s.conns[key]
	var invalid *agentConn
	for i := len(conns) - 1; i >= 0; i-- {
		switch a := conns[i]; {
		case !a.ready.Load():
		case !a.invalid.Load():
			return a
		case invalid == nil:
			invalid = a
		}
	}
	return invalid
}

// readReason is what the agent wrote to the refused channel.
func readReason(ch ssh.Channel, req dialRequest) error {
	raw, _ := io.ReadAll(io.LimitReader(ch.Stderr(), 4<<10))
	if msg := strings.TrimSpace(string(raw)); msg != "" {
		return errors.New(msg)
	}
	return fmt.Errorf("failed connecting to %v [%v]", req.Address, req.ServerID)
}
