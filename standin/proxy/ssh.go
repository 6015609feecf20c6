package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/sshutil"
)

// sshServer is what users connect to.
type sshServer struct {
	*service
	buffers *sshutil.Buffers
	forward *node.Server // serves sessions itself in the proxy recording modes

	connsMu sync.Mutex
	conns   map[*userConn]struct{}
}

// userConn is one user's connection.
type userConn struct {
	*ssh.ServerConn
	srv      *sshServer
	identity sshutil.Identity
	agent    atomic.Bool // agent forwarding was asked for and is allowed
	missed   atomic.Int64
}

func newSSHServer(s *service) *sshServer {
	return &sshServer{service: s, buffers: sshutil.NewBuffers(), conns: map[*userConn]struct{}{}, forward: newForwardServer(s)}
}

// handle serves one connection until it ends or ctx does.
func (s *sshServer) handle(ctx context.Context, conn net.Conn) {
	u := &userConn{srv: s}
	sconn, chans, reqs, err := sshutil.Handshake(conn, s.sshConfig(ctx, u))
	if err != nil {
		s.env.Log.Debug("user refused", "remote", conn.RemoteAddr(), "err", err)
		return
	}
	u.ServerConn = sconn
	s.track(u, true)
	defer s.track(u, false)
	sshutil.Serve(ctx, sconn, chans, reqs, u)
}

func (s *sshServer) sshConfig(ctx context.Context, u *userConn) *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{
		Config:        sshutil.Algorithms(),
		ServerVersion: sshutil.ServerVersion,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			cas, err := s.env.Auth.Authorities(ctx)
			if err != nil {
				return nil, err
			}
			u.identity, err = sshutil.CheckUser(key, meta.User(), cas.UserSSH)
			if err != nil {
				s.env.Log.Info("user refused", "remote", meta.RemoteAddr(), "err", err)
				recorder.RefusedLogin(s.emitter, meta, key, meta.RemoteAddr(), err)
				return nil, err
			}
			u.identity.Certificate = sshutil.Slim(u.identity.Certificate)
			return &ssh.Permissions{}, nil
		},
	}
	cfg.AddHostKey(s.env.Auth.Identity().SSH)
	return cfg
}

func (s *sshServer) track(u *userConn, open bool) {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	if open {
		s.conns[u] = struct{}{}
	} else {
		delete(s.conns, u)
	}
}

func (s *sshServer) active() int {
	s.connsMu.Lock()
	n := len(s.conns)
	s.connsMu.Unlock()
	return max(n, s.forward.Active())
}

// keepAlive asks every user connection for a sign of life each interval and closes those that missed the allowed number.
func (s *sshServer) keepAlive(ctx context.Context) {
	for {
		cluster := s.cluster.Get()
		timer := time.NewTimer(cluster.KeepAlive)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		s.connsMu.Lock()
		for u := range s.conns {
			if u.missed.Add(1) > cluster.KeepAliveMax {
				go u.Close()
				continue
			}
			go func() {
				if _, _, err := u.SendRequest(sshutil.KeepAliveRequest, true, nil); err == nil {
					u.missed.Store(0)
				}
			}()
		}
		s.connsMu.Unlock()
	}
}

// Channel serves sessions, which carry subsystems only, and jumps.
func (u *userConn) Channel(ctx context.Context, _ *ssh.ServerConn, nch ssh.NewChannel) (sshutil.Session, <-chan *ssh.Request) {
	switch nch.ChannelType() {
	case "session":
		ch, reqs, err := nch.Accept()
		if err != nil {
			return nil, nil
		}
		return &userSession{userConn: u, ch: ch}, reqs
	case "direct-tcpip":
		go u.jump(ctx, nch)
	default:
		nch.Reject(ssh.UnknownChannelType, "unknown channel type: "+nch.ChannelType())
	}
	return nil, nil
}

// Request answers global requests.
func (u *userConn) Request(_ *ssh.ServerConn, req *ssh.Request) {
	switch req.Type {
	case sshutil.KeepAliveRequest:
		if req.WantReply {
			req.Reply(true, nil)
		}
	case sshutil.ClusterDetailsRequest:
		req.Reply(true, ssh.Marshal(sshutil.ClusterDetails{RecordingProxy: u.srv.recordsHere()}))
	case "x-teleport-version":
		req.Reply(true, []byte(u.srv.env.Behaviour.Version))
	default:
		sshutil.RefuseRequest(req)
	}
}

func (s *sshServer) recordsHere() bool { return recorder.AtProxy(s.cluster.Get().SessionRecording) }

// refusalPause lets the reason of a refusal arrive before the refusal.
const refusalPause = 10 * time.Millisecond

// userSession is one session channel.
type userSession struct {
	*userConn
	ch ssh.Channel
}

// Gone closes the channel that the client closed.
func (s *userSession) Gone() { s.ch.Close() }

// Request handles one request; what it refuses ends the session.
func (s *userSession) Request(ctx context.Context, req *ssh.Request) {
	switch req.Type {
	case "env", "simple@putty.projects.tartarus.org":
		s.accept(req)
	case sshutil.AgentForwardRequest:
		// Never refused to the client, as the real proxy does.
		if err := s.allowAgent(ctx); err != nil {
			s.srv.env.Log.Warn("agent forwarding", "user", s.identity.User, "err", err)
		}
		s.accept(req)
	case "subsystem":
		go s.subsystem(ctx, req)
	default:
		go s.refuse(req, fmt.Errorf("(proxy) proxy doesn't support request type '%v'", req.Type))
	}
}

func (s *userSession) accept(req *ssh.Request) {
	if req.WantReply {
		req.Reply(true, nil)
	}
}

func (s *userSession) refuse(req *ssh.Request, err error) {
	s.srv.env.Log.Info("session request refused", "user", s.identity.User, "type", req.Type, "err", err)
	fmt.Fprintln(s.ch.Stderr(), err)
	if req.Type == "subsystem" {
		// OpenSSH leaves at the refusal and prints only what it read before.
		time.Sleep(refusalPause)
	}
	if req.WantReply {
		req.Reply(false, []byte(err.Error()+"\n"))
	}
	s.ch.Close()
}

func (u *userConn) allowAgent(ctx context.Context) error {
	if !u.srv.recordsHere() {
		return errors.New("agent forwarding to proxy only supported in recording mode")
	}
	checker, err := u.srv.env.Auth.Access(ctx, u.identity.Roles, u.identity.Traits)
	if err != nil {
		return err
	}
	if !checker.ForwardAgent() || !u.identity.Permits(sshutil.PermitAgentForwarding) {
		return errors.New("agent forwarding not permitted")
	}
	u.agent.Store(true)
	return nil
}

// subsystem connects the channel to where the name says, and serves it. The reply is sent before the first byte of the other side.
func (s *userSession) subsystem(ctx context.Context, req *ssh.Request) {
	serve, err := s.open(ctx, req)
	if err != nil {
		s.refuse(req, err)
		return
	}
	s.accept(req)
	defer s.ch.Close()
	serve(s.ch)
}

func (s *userSession) open(ctx context.Context, req *ssh.Request) (func(ssh.Channel), error) {
	var sub struct{ Name string }
	if err := ssh.Unmarshal(req.Payload, &sub); err != nil {
		return nil, fmt.Errorf("malformed subsystem request: %w", err)
	}
	if !strings.HasPrefix(sub.Name, "proxy:") {
		return nil, fmt.Errorf("unrecognized subsystem: %v", sub.Name)
	}
	to, err := sshutil.ParseProxyRequest(sub.Name)
	if err != nil {
		return nil, err
	}
	return s.connect(ctx, to)
}

// connect opens the way to a destination; what it returns serves a channel over it.
func (u *userConn) connect(ctx context.Context, to sshutil.ProxyRequest) (func(ssh.Channel), error) {
	cluster := to.Cluster
	if cluster == "" {
		cluster = u.identity.RouteToCluster
	}
	if own := u.srv.env.Auth.Identity().Cluster; cluster != "" && cluster != own {
		return nil, fmt.Errorf("invalid format for proxy request: unknown cluster %q", cluster)
	}
	if to.Host == "" {
		conn, err := u.srv.router.dialAuth(ctx)
		if err != nil {
			return nil, err
		}
		return func(ch ssh.Channel) { u.srv.buffers.Join(ch, conn) }, nil
	}
	if u.srv.recordsHere() {
		return u.connectRecorded(ctx, to)
	}
	conn, _, err := u.srv.router.dial(ctx, u.identity.User, to.Host, to.Port)
	if err != nil {
		return nil, err
	}
	return func(ch ssh.Channel) {
		defer conn.Close()
		if err := greet(conn, ch, u.RemoteAddr()); err != nil {
			return
		}
		u.srv.buffers.Join(ch, conn)
	}, nil
}

// greet tells a Teleport server the client's address, between its version line and the client's.
func greet(server net.Conn, client io.Writer, addr net.Addr) error {
	const maxVersion = 255
	buf := make([]byte, maxVersion)
	n, err := server.Read(buf)
	if err != nil {
		return err
	}
	if strings.HasPrefix(string(buf[:n]), sshutil.ServerVersionPrefix) {
		raw, err := json.Marshal(map[string]string{"clientAddr": addr.String()})
		if err != nil {
			return err
		}
		if _, err := server.Write(append(append([]byte("Teleport-Proxy"), raw...), 0)); err != nil {
			return err
		}
	}
	_, err = client.Write(buf[:n])
	return err
}

// jump serves direct-tcpip, which in a proxy means the node of that name.
func (u *userConn) jump(ctx context.Context, nch ssh.NewChannel) {
	var req struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nch.ExtraData(), &req); err != nil {
		nch.Reject(ssh.UnknownChannelType, "failed to parse direct-tcpip request")
		return
	}
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	go ssh.DiscardRequests(reqs)
	// A jump leaves the client no way to ask for agent forwarding first.
	if u.srv.recordsHere() {
		if err := u.allowAgent(ctx); err != nil {
			fmt.Fprintln(ch.Stderr(), "Failed to request agent")
			return
		}
	}
	serve, err := u.connect(ctx, sshutil.ProxyRequest{Host: req.Host, Port: strconv.FormatUint(uint64(req.Port), 10)})
	if err != nil {
		u.srv.env.Log.Info("jump refused", "user", u.identity.User, "host", req.Host, "err", err)
		fmt.Fprintln(ch.Stderr(), "Unable to start proxy subsystem.")
		return
	}
	serve(ch)
}
