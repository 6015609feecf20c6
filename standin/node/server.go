package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/sshutil"
)

// ServerConfig is what an SSH server of sessions needs.
type ServerConfig struct {
	Auth     authclient.Client
	Cluster  func() *authclient.ClusterConfig // the newest known
	Tunnel   bool                             // reached through a proxy's tunnel: audit events leave out the local address
	AtProxy  bool                             // this is a recording proxy
	Recorder *recorder.Host
	Emitter  *recorder.Emitter
	Faults   *faults.Registry
	Metrics  prometheus.Registerer
	Scale    process.Scale
	Forward  bool // port forwarding is on
	FileCopy bool
	Log      *slog.Logger
}

// Target is the server that a connection is for: always the node itself, or in a recording proxy the node behind it.
type Target struct {
	HostKey ssh.Signer
	Server  events.ServerMetadata // as audit events name it
	Labels  map[string]string
	Runner  Runner
}

// Server serves SSH connections with sessions in them.
type Server struct {
	cfg ServerConfig

	trackers  *Trackers
	sessions  prometheus.Gauge
	rx, tx    prometheus.Counter
	abandoned atomic.Bool

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// Conn is one user's connection.
type Conn struct {
	*ssh.ServerConn
	Identity sshutil.Identity
	Access   *access.Checker

	srv      *Server
	target   Target
	wire     *wire
	sessions atomic.Int64
	missed   atomic.Int64 // keep-alives
}

// NewServer gives a server without connections.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, trackers: NewTrackers(cfg.Auth, cfg.Scale, cfg.Log), conns: map[*Conn]struct{}{}}
	s.sessions = recorder.Gauge(cfg.Metrics, "server_interactive_sessions_total", "Number of active sessions to this host")
	s.rx = recorder.Counter(cfg.Metrics, "rx", "Number of bytes received.")
	s.tx = recorder.Counter(cfg.Metrics, "tx", "Number of bytes transmitted.")
	// Limits over the cluster are not imitated, so that this stays 0.
	recorder.Counter(cfg.Metrics, "user_max_concurrent_sessions_hit_total", "Number of times a user exceeded their concurrent session limit.")
	return s
}

// Handle serves one connection to a target until it ends or ctx does.
func (s *Server) Handle(ctx context.Context, raw net.Conn, target Target) {
	c := &Conn{srv: s, target: target, wire: newWire(raw)}
	defer c.wire.Close()
	sconn, chans, reqs, err := sshutil.Handshake(c.wire, s.sshConfig(ctx, c))
	if err != nil {
		s.cfg.Log.Debug("connection refused", "remote", c.wire.RemoteAddr(), "err", err)
		return
	}
	c.ServerConn = sconn
	s.add(c)
	defer s.remove(c)
	sshutil.Serve(ctx, sconn, chans, reqs, c)
}

func (s *Server) sshConfig(ctx context.Context, c *Conn) *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{
		Config:        sshutil.Algorithms(),
		ServerVersion: sshutil.ServerVersion,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if err := s.authenticate(ctx, c, meta, key); err != nil {
				s.cfg.Log.Info("login refused", "login", meta.User(), "remote", c.wire.RemoteAddr(), "err", err)
				recorder.RefusedLogin(s.cfg.Emitter, meta, key, c.wire.RemoteAddr(), err)
				return nil, err
			}
			return &ssh.Permissions{}, nil
		},
	}
	cfg.AddHostKey(c.target.HostKey)
	return cfg
}

// authenticate checks the certificate, its principals and what the user's roles allow on this server.
func (s *Server) authenticate(ctx context.Context, c *Conn, meta ssh.ConnMetadata, key ssh.PublicKey) error {
	cas, err := s.cfg.Auth.Authorities(ctx)
	if err != nil {
		return fmt.Errorf("fetch authorities: %w", err)
	}
	id, err := sshutil.CheckUser(key, meta.User(), cas.UserSSH)
	if err != nil {
		return err
	}
	checker, err := s.cfg.Auth.Access(ctx, id.Roles, id.Traits)
	if err != nil {
		return fmt.Errorf("resolve roles of user %s: %w", id.User, err)
	}
	if checker.User == "" {
		named := *checker
		named.User = id.User
		checker = &named
	}
	// A recording proxy leaves this to the node, which checks it again.
	if !s.cfg.AtProxy {
		if err := checker.Login(meta.User(), c.target.Labels); err != nil {
			return err
		}
	}
	id.Certificate = sshutil.Slim(id.Certificate)
	c.Identity, c.Access = id, checker
	return nil
}

func (s *Server) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Active is the number of user connections, and of sessions that still write down their end.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(len(s.conns), s.trackers.Live())
}

// Abandon cuts every connection, and sessions end without events or recordings, as when the process dies.
func (s *Server) Abandon() {
	s.abandoned.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		go c.wire.Close()
	}
}

// Channel serves sessions and forwarded ports.
func (c *Conn) Channel(ctx context.Context, _ *ssh.ServerConn, ch ssh.NewChannel) (sshutil.Session, <-chan *ssh.Request) {
	switch ch.ChannelType() {
	case "session":
		if limit := c.Access.MaxSessions(); limit > 0 && c.sessions.Load() >= limit {
			c.rejectSession(ch, limit)
			break
		}
		return c.newSession(ch)
	case "direct-tcpip":
		go c.forwardPort(ctx, ch)
	default:
		ch.Reject(ssh.UnknownChannelType, "unknown channel type: "+ch.ChannelType())
	}
	return nil, nil
}

func (c *Conn) rejectSession(ch ssh.NewChannel, limit int64) {
	c.srv.cfg.Emitter.Emit(&events.SessionReject{
		Metadata:           events.Metadata{Type: recorder.TypeReject, Code: recorder.CodeReject},
		UserMetadata:       c.userMetadata(),
		ConnectionMetadata: c.connectionMetadata(),
		ServerMetadata:     c.target.Server,
		Reason:             "max_sessions limit reached",
		Maximum:            limit,
	})
	ch.Reject(ssh.Prohibited, fmt.Sprintf("too many session channels for user %q (max=%d)", c.Identity.User, limit))
}

// Request answers global requests; keep-alives succeed.
func (c *Conn) Request(_ *ssh.ServerConn, req *ssh.Request) {
	switch req.Type {
	case sshutil.KeepAliveRequest:
		if req.WantReply {
			req.Reply(true, nil)
		}
	case sshutil.ClusterDetailsRequest:
		req.Reply(true, ssh.Marshal(sshutil.ClusterDetails{RecordingProxy: recorder.AtProxy(c.srv.cfg.Cluster().SessionRecording)}))
	default:
		sshutil.RefuseRequest(req)
	}
}

// Run keeps connections and trackers alive until ctx ends.
func (s *Server) Run(ctx context.Context) {
	go s.keepAlive(ctx)
	s.trackers.Run(ctx)
}

// keepAlive asks every connection for a sign of life each interval and closes those that missed the allowed number.
func (s *Server) keepAlive(ctx context.Context) {
	for {
		cluster := s.cfg.Cluster()
		timer := time.NewTimer(cluster.KeepAlive)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			s.askAll(cluster.KeepAliveMax)
		}
	}
}

func (s *Server) askAll(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.missed.Add(1) > most {
			s.cfg.Log.Info("missed keep-alives, closing connection", "remote", c.RemoteAddr(), "missed", most)
			go c.Close()
			continue
		}
		go func() {
			if _, _, err := c.SendRequest(sshutil.KeepAliveRequest, true, nil); err == nil {
				c.missed.Store(0)
			}
		}()
	}
}
