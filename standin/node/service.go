package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/tunnel"
)

// service is the SSH service of a process.
type service struct {
	env      process.Env
	server   *Server
	target   Target
	emitter  *recorder.Emitter
	recorder *recorder.Host
	cluster  *ClusterCache
	pool     *tunnel.Pool // nil: proxies dial this node
	listener net.Listener // nil: tunnel

	ctx    context.Context
	cancel context.CancelFunc
	beats  context.CancelFunc
	work   sync.WaitGroup
}

// New makes the SSH service. With a proxy address in the configuration it is reached through tunnels, else proxies dial it.
func New(env process.Env) (process.Service, error) {
	id := env.Auth.Identity()
	s := &service{env: env, emitter: recorder.NewEmitter(env.Auth, env.Metrics, env.Log), cluster: NewClusterCache(env)}
	s.recorder = recorder.NewHost(recorder.ConfigOf(env, s.emitter))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	cfg := env.Config.SSH
	useTunnel := env.Config.Global.ProxyServer != ""
	s.server = NewServer(ServerConfig{
		Auth: env.Auth, Cluster: s.cluster.Get, Tunnel: useTunnel,
		Recorder: s.recorder, Emitter: s.emitter, Faults: env.Faults, Scale: env.Scale, Log: env.Log,
		Metrics: env.Metrics,
		Forward: orTrue(cfg.PortForwarding), FileCopy: orTrue(cfg.FileCopy),
	})
	s.target = Target{
		HostKey: id.SSH, Labels: cfg.Labels, Runner: LocalRunner{Echo: os.Getenv(EnvShell) == "echo"},
		Server: events.ServerMetadata{ServerNamespace: "default", ServerID: id.HostUUID, ServerHostname: id.NodeName, ServerLabels: cfg.Labels},
	}
	if useTunnel {
		s.pool = tunnel.NewPool(tunnel.PoolConfig{
			UUID: id.HostUUID, Version: env.Behaviour.Version, HostKey: id.SSH, HostCAs: HostCAs(env.Auth),
			Dial:   tunnel.Dialer{ProxyAddr: env.Config.Global.ProxyServer, Insecure: env.Insecure}.Dial,
			Handle: s.handle, KeepAlive: s.cluster.Get().KeepAlive, Backoff: env.TunnelBackoff, Log: env.Log,
		})
	}
	return s, nil
}

func orTrue(b *bool) bool { return b == nil || *b }

// HostCAs asks the auth for the host authorities of the moment.
func HostCAs(auth authclient.Client) func(context.Context) ([]ssh.PublicKey, error) {
	return func(ctx context.Context) ([]ssh.PublicKey, error) {
		cas, err := auth.Authorities(ctx)
		if err != nil {
			return nil, err
		}
		return cas.HostSSH, nil
	}
}

// Start listens or connects tunnels, and announces the node.
func (s *service) Start(ctx context.Context) error {
	if err := s.cluster.Refresh(ctx); err != nil {
		return fmt.Errorf("fetch cluster configuration: %w", err)
	}
	if err := s.recorder.Start(s.ctx); err != nil {
		return err
	}
	if s.pool == nil {
		l, err := net.Listen("tcp", s.env.Config.SSH.ListenAddr)
		if err != nil {
			return fmt.Errorf("listen for SSH: %w", err)
		}
		s.listener = l
		s.target.Server.ServerAddr = l.Addr().String()
		s.work.Go(s.accept)
	} else {
		s.work.Go(func() { s.pool.Run(s.ctx) })
	}
	s.work.Go(func() { s.server.Run(s.ctx) })
	beatCtx, stop := context.WithCancel(s.ctx)
	s.beats = stop
	s.work.Go(func() { s.env.Beat(beatCtx, "node", s.cluster.Refresh, s.describe) })
	return nil
}

func (s *service) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.handle(s.ctx, conn)
	}
}

func (s *service) handle(ctx context.Context, conn net.Conn) { s.server.Handle(ctx, conn, s.target) }

func (s *service) describe() types.Server {
	id, spec := s.env.Auth.Identity(), types.ServerSpecV2{Hostname: s.env.Auth.Identity().NodeName, Version: s.env.Behaviour.Version}
	if s.pool != nil {
		spec.UseTunnel, spec.ProxyIDs = true, s.pool.Connected()
	} else {
		spec.Addr = Advertised(s.env, s.env.Config.SSH.PublicAddr, s.listener.Addr().String())
	}
	expires := time.Now().UTC().Add(s.env.Scale.Of(process.ServerTTL))
	return &types.ServerV2{
		Kind: types.KindNode, Version: types.V2, Spec: spec,
		Metadata: types.Metadata{Name: id.HostUUID, Namespace: "default", Labels: s.env.Config.SSH.Labels, Expires: &expires},
	}
}

// Drain stops announcing and taking new connections and waits until the last user connection is over.
func (s *service) Drain(ctx context.Context) error {
	s.stopBeats()
	if s.env.Behaviour.UploaderStopsOnDrain {
		s.recorder.StopUploads()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	return WaitIdle(ctx, s.server.Active, func(n int) { s.env.Log.Info("shutdown: waiting for connections to finish", "active", n) })
}

func (s *service) stopBeats() {
	if s.beats != nil {
		s.beats()
	}
}

// WaitIdle polls until nothing is active, like the real program every 500 ms.
func WaitIdle(ctx context.Context, active func() int, report func(int)) error {
	const poll = 500 * time.Millisecond
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	reported := -1
	for {
		n := active()
		if n == 0 {
			return nil
		}
		if n != reported {
			report(n)
			reported = n
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d connections still active: %w", n, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Close cuts every connection. What sessions have not yet written to disk is lost, and they leave no events.
func (s *service) Close() error {
	s.stopBeats()
	s.server.Abandon()
	s.cancel()
	var err error
	if s.listener != nil {
		if err = s.listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
	}
	s.recorder.StopUploads()
	s.emitter.Close()
	s.work.Wait()
	return err
}
