package proxy

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/sshutil"
)

// newForwardServer is the SSH server that stands for nodes in the proxy recording modes.
func newForwardServer(s *service) *node.Server {
	return node.NewServer(node.ServerConfig{
		Auth: s.env.Auth, Cluster: s.cluster.Get, AtProxy: true, Recorder: s.recorder, Emitter: s.emitter, Faults: s.env.Faults,
		Metrics: s.env.Metrics, Scale: s.env.Scale, Forward: true, FileCopy: true, Log: s.env.Log,
	})
}

// connectRecorded dials the node and serves the client in the node's name, with the client's own agent to log in there.
func (u *userConn) connectRecorded(ctx context.Context, to sshutil.ProxyRequest) (func(ssh.Channel), error) {
	if !u.agent.Load() {
		return nil, errors.New("agent forwarding required in proxy recording mode")
	}
	conn, dest, err := u.srv.router.dial(ctx, u.identity.User, to.Host, to.Port)
	if err != nil {
		return nil, err
	}
	id := ""
	var labels map[string]string
	if dest.server != nil {
		id, labels = dest.server.GetName(), dest.server.GetAllLabels()
	}
	key, err := u.srv.hostKeyFor(ctx, to.Host, id)
	if err != nil {
		conn.Close()
		return nil, err
	}
	target := node.Target{
		HostKey: key, Server: u.srv.targetMetadata(dest), Labels: labels, Runner: &remote{user: u, conn: conn, host: to.Host},
	}
	return func(ch ssh.Channel) {
		defer conn.Close()
		u.srv.forward.Handle(ctx, sshutil.NewChannelConn(ch, u, nil), target)
	}, nil
}

// targetMetadata is how the real recording proxy names a node in audit events.
func (s *sshServer) targetMetadata(dest destination) events.ServerMetadata {
	own := s.env.Auth.Identity()
	m := events.ServerMetadata{ServerNamespace: "default", ServerHostname: dest.host, ServerAddr: dest.address(), ForwardedBy: own.HostUUID}
	if dest.server != nil {
		m.ServerID = dest.server.GetName() + "." + own.Cluster
	}
	return m
}

// hostKeyFor makes a host key with a certificate in the node's name.
func (s *sshServer) hostKeyFor(ctx context.Context, host, id string) (ssh.Signer, error) {
	principals := []string{host}
	if id != "" {
		principals = append(principals, id+"."+s.env.Auth.Identity().Cluster, id)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	cert, err := s.env.Auth.SignHost(ctx, signer.PublicKey(), principals)
	if err != nil {
		return nil, fmt.Errorf("host certificate for %s: %w", host, err)
	}
	return ssh.NewCertSigner(cert, signer)
}

// remote runs programs on the node behind the proxy, over one connection made when the first is wanted.
type remote struct {
	user *userConn
	conn net.Conn
	host string

	once   sync.Once
	client *ssh.Client
	err    error
}

func (r *remote) connect(ctx context.Context, login string) (*ssh.Client, error) {
	r.once.Do(func() { r.client, r.err = r.dial(ctx, login) })
	return r.client, r.err
}

func (r *remote) dial(ctx context.Context, login string) (*ssh.Client, error) {
	ch, reqs, err := r.user.OpenChannel(sshutil.AgentChannel, nil)
	if err != nil {
		return nil, fmt.Errorf("agent must be forwarded to proxy: %w", err)
	}
	go ssh.DiscardRequests(reqs)
	defer ch.Close()
	timer := time.AfterFunc(sshutil.HandshakeTimeout, func() { r.conn.Close() })
	defer timer.Stop()
	conn, chans, requests, err := ssh.NewClientConn(r.conn, r.host, &ssh.ClientConfig{
		User: login, Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(ch).Signers)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error { return r.checkHost(ctx, key) },
	})
	if err != nil {
		return nil, fmt.Errorf("connect to node %s: %w", r.host, err)
	}
	return ssh.NewClient(conn, chans, requests), nil
}

// checkHost trusts the cluster's hosts, and every host where proxy_checks_host_keys is off.
func (r *remote) checkHost(ctx context.Context, key ssh.PublicKey) error {
	if !r.user.srv.cluster.Get().ProxyChecksHosts {
		return nil
	}
	cas, err := r.user.srv.env.Auth.Authorities(ctx)
	if err != nil {
		return err
	}
	_, err = sshutil.CheckHost(key, cas.HostSSH)
	return err
}

// DialPort reaches a port forwarded by the node.
func (r *remote) DialPort(ctx context.Context, addr string) (io.ReadWriteCloser, error) {
	client, err := r.connect(ctx, r.user.User())
	if err != nil {
		return nil, err
	}
	return client.DialContext(ctx, "tcp", addr)
}

// Start runs a program in a session of the node.
func (r *remote) Start(ctx context.Context, req node.Request) (node.Program, error) {
	client, err := r.connect(ctx, req.Login)
	if err != nil {
		return nil, err
	}
	ch, reqs, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, fmt.Errorf("open session on node %s: %w", r.host, err)
	}
	p := &remoteProgram{ch: ch, exit: make(chan node.Exit, 1)}
	if err := p.start(req); err != nil {
		ch.Close()
		return nil, err
	}
	go p.watch(reqs)
	return p, nil
}

// remoteProgram is a program in a session of the node.
type remoteProgram struct {
	ch   ssh.Channel
	exit chan node.Exit
}

func (p *remoteProgram) start(req node.Request) error {
	for _, kv := range req.ClientEnv {
		name, value, _ := strings.Cut(kv, "=")
		p.request("env", struct{ Name, Value string }{name, value}, false)
	}
	if t := req.PTY; t != nil {
		ask := struct {
			Term                               string
			Columns, Rows, PixWidth, PixHeight uint32
			Modes                              string
		}{t.Term, t.Width, t.Height, 0, 0, encodeModes(t.Modes)}
		if err := p.request("pty-req", ask, true); err != nil {
			return err
		}
	}
	switch {
	case req.Subsystem != "":
		return p.request("subsystem", struct{ Name string }{req.Subsystem}, true)
	case req.Command != "":
		return p.request("exec", struct{ Command string }{req.Command}, true)
	}
	return p.request("shell", nil, true)
}

func (p *remoteProgram) request(kind string, payload any, wantReply bool) error {
	var raw []byte
	if payload != nil {
		raw = ssh.Marshal(payload)
	}
	ok, err := p.ch.SendRequest(kind, wantReply, raw)
	if err != nil {
		return err
	}
	if wantReply && !ok {
		reason, _ := io.ReadAll(io.LimitReader(p.ch.Stderr(), 4<<10))
		return fmt.Errorf("node refused %s: %s", kind, strings.TrimSpace(string(reason)))
	}
	return nil
}

// watch waits for how the program ended; without a word of that the exit is lost.
func (p *remoteProgram) watch(reqs <-chan *ssh.Request) {
	exit := node.Exit{Lost: true}
	for req := range reqs {
		switch req.Type {
		case "exit-status":
			var status struct{ Status uint32 }
			if ssh.Unmarshal(req.Payload, &status) == nil {
				exit = node.Exit{Status: status.Status}
			}
		case "exit-signal":
			var sig struct {
				Signal     string
				CoreDumped bool
				Message    string
				Language   string
			}
			if ssh.Unmarshal(req.Payload, &sig) == nil {
				exit = node.Exit{Signal: sig.Signal, Status: 128}
			}
		}
		if req.WantReply {
			req.Reply(false, nil)
		}
	}
	p.exit <- exit
}

func (p *remoteProgram) Run(in io.Reader, out, errs io.Writer) node.Exit {
	buffers := sshutil.NewBuffers()
	go func() {
		buffers.Copy(p.ch, in)
		p.ch.CloseWrite()
	}()
	var wg sync.WaitGroup
	wg.Go(func() { buffers.Copy(errs, p.ch.Stderr()) })
	if _, err := buffers.Copy(out, p.ch); err != nil {
		p.ch.Close()
	}
	wg.Wait()
	return <-p.exit
}

func (p *remoteProgram) Resize(width, height uint32) {
	p.request("window-change", struct{ Columns, Rows, PixWidth, PixHeight uint32 }{width, height, 0, 0}, false)
}

func (p *remoteProgram) Signal(name string) {
	p.request("signal", struct{ Name string }{name}, false)
}

func (p *remoteProgram) Kill() { p.ch.Close() }

func encodeModes(modes map[uint8]uint32) string {
	var b []byte
	for mode, v := range modes {
		b = append(b, mode, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return string(append(b, 0))
}
