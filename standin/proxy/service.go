// Package proxy is the stand-in's proxy: TLS routing on the web port, SSH for users, reverse tunnels for agents, Kubernetes, and the way through to the auth.
//
// An SSH session through it costs seven goroutines: four for the user's connection and three for its channel.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/kube"
	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/tunnel"
)

// service is the proxy service of a process.
type service struct {
	env      process.Env
	cluster  *node.ClusterCache
	servers  *directory
	tunnels  *tunnel.Server
	router   *router
	ssh      *sshServer
	web      *webServer
	kube     *kube.Forwarder
	limits   *limiter
	emitter  *recorder.Emitter
	recorder *recorder.Host
	tlsWeb   *tls.Config
	tlsRaw   *tls.Config // the same certificate without ALPN

	ctx    context.Context
	cancel context.CancelFunc
	beats  context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	listeners []net.Listener
	addrs     addresses
}

// addresses are those really listened on, which differ from the configured ones where a port was 0.
type addresses struct{ web, ssh, tunnel, kube string }

// New makes the proxy service.
func New(env process.Env) (process.Service, error) {
	id := env.Auth.Identity()
	s := &service{env: env, cluster: node.NewClusterCache(env), servers: newDirectory(env), emitter: recorder.NewEmitter(env.Auth, env.Metrics, env.Log)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.recorder = recorder.NewHost(recorder.ConfigOf(env, s.emitter))
	s.limits = newLimiter(env.Config.Global.Limits.MaxConnections, recorder.Counter(env.Metrics, "proxy_connection_limit_exceeded_total", "Number of connections that exceeded the proxy connection limit"))
	s.tunnels = tunnel.NewServer(tunnel.ServerConfig{
		Cluster: id.Cluster, HostKey: id.SSH, HostCAs: node.HostCAs(env.Auth), UserCAs: userCAs(env.Auth), DialAuth: env.Auth.DialAuth, Proxies: s.servers.proxies,
		Offline: time.Duration(s.cluster.Get().KeepAliveMax) * s.cluster.Get().KeepAlive, Log: env.Log,
		Connected: recorder.Register(env.Metrics, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "teleport_reverse_tunnels_connected", Help: "Number of reverse SSH tunnels connected to the Teleport Proxy Service by Teleport instances",
		}, []string{"type"})),
	})
	s.router = newRouter(env, s.servers, s.cluster, s.tunnels)
	s.ssh = newSSHServer(s)
	webTLS, err := webCertificate(env)
	if err != nil {
		return nil, err
	}
	s.tlsWeb, s.tlsRaw = webTLS, webTLS.Clone()
	s.tlsRaw.NextProtos = nil
	s.web = newWebServer(s)
	s.kube = kube.NewForwarder(kube.ForwarderConfig{Env: env, Servers: s.servers.kube, Tunnels: s.tunnels})
	return s, nil
}

// Start listens, begins to serve and announces the proxy.
func (s *service) Start(ctx context.Context) error {
	if err := s.cluster.Refresh(ctx); err != nil {
		return fmt.Errorf("fetch cluster configuration: %w", err)
	}
	if err := s.servers.refresh(ctx); err != nil {
		return fmt.Errorf("fetch servers: %w", err)
	}
	if err := s.recorder.Start(s.ctx); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		s.closeListeners()
		return err
	}
	s.work.Go(func() { s.web.serve(s.ctx) })
	s.work.Go(func() { s.kube.Serve(s.ctx) })
	s.work.Go(func() { s.ssh.keepAlive(s.ctx) })
	s.work.Go(func() { s.ssh.forward.Run(s.ctx) })
	beatCtx, stop := context.WithCancel(s.ctx)
	s.beats = stop
	s.work.Go(func() { s.env.Beat(beatCtx, "proxy", s.cluster.Refresh, s.describe) })
	s.work.Go(func() { s.servers.run(s.ctx, s.tunnels.Announce) })
	s.work.Go(func() { s.router.countMissing(s.ctx) })
	return nil
}

// listen opens the web port and, unless the cluster multiplexes, the ports for SSH, tunnels and Kubernetes.
func (s *service) listen() error {
	p := s.env.Config.Proxy
	var err error
	if s.addrs.web, err = s.open(p.WebAddr, "web", s.routeTLS); err != nil {
		return err
	}
	if p.KubeAddr != "" {
		if s.addrs.kube, err = s.open(p.KubeAddr, "kube", s.kube.Handle); err != nil {
			return err
		}
	}
	if s.multiplexed() {
		return nil
	}
	if s.addrs.ssh, err = s.open(orDefault(p.ListenAddr, "0.0.0.0:3023"), "ssh", s.ssh.handle); err != nil {
		return err
	}
	s.addrs.tunnel, err = s.open(orDefault(p.TunnelAddr, "0.0.0.0:3024"), "tunnel", s.tunnels.Handle)
	return err
}

func orDefault(addr, fallback string) string {
	if addr == "" {
		return fallback
	}
	return addr
}

// multiplexed reports whether everything is on the web port; with a version 1 file the separate ports stay.
func (s *service) multiplexed() bool {
	return s.cluster.Get().ListenerMode == "multiplex" && s.env.Config.Version != "v1" && s.env.Config.Version != ""
}

// open listens and hands accepted connections to handle, each in a goroutine of its own.
func (s *service) open(addr, what string, handle func(context.Context, net.Conn)) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for %s: %w", what, err)
	}
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	s.env.Log.Info("listening", "service", "proxy:"+what, "addr", l.Addr())
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				s.env.Log.Warn("accept", "service", "proxy:"+what, "err", err)
				time.Sleep(10 * time.Millisecond)
				continue
			}
			go s.admit(conn, handle)
		}
	}()
	return l.Addr().String(), nil
}

// admit serves a connection within the limits per client address.
func (s *service) admit(conn net.Conn, handle func(context.Context, net.Conn)) {
	defer conn.Close()
	if _, dead := s.env.Faults.Active(faults.ReadyWhileDead, ""); dead {
		s.env.Faults.Record(faults.ReadyWhileDead, "", "closed a connection of "+conn.RemoteAddr().String())
		return
	}
	release, ok := s.limits.take(conn.RemoteAddr())
	if !ok {
		s.env.Log.Warn("connection limit exceeded", "remote", conn.RemoteAddr())
		return
	}
	defer release()
	handle(s.ctx, conn)
}

func (s *service) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.Close()
	}
}

func userCAs(auth authclient.Client) func(context.Context) ([]ssh.PublicKey, error) {
	return func(ctx context.Context) ([]ssh.PublicKey, error) {
		cas, err := auth.Authorities(ctx)
		if err != nil {
			return nil, err
		}
		return cas.UserSSH, nil
	}
}

func (s *service) describe() types.Server {
	id := s.env.Auth.Identity()
	expires := time.Now().UTC().Add(s.env.Scale.Of(process.ServerTTL))
	spec := types.ServerSpecV2{Hostname: id.NodeName, Version: s.env.Behaviour.Version, Addr: node.Advertised(s.env, nil, s.addrs.web)}
	if public := s.env.Config.Proxy.PublicAddr; len(public) > 0 {
		spec.PublicAddr = public[0]
	}
	return &types.ServerV2{Kind: types.KindProxy, Version: types.V2, Spec: spec, Metadata: types.Metadata{Name: id.HostUUID, Namespace: "default", Expires: &expires}}
}

// Drain closes the listeners, tells agents to connect elsewhere and waits until the last user connection is over.
func (s *service) Drain(ctx context.Context) error {
	s.stopBeats()
	b := s.env.Behaviour
	if b.UploaderStopsOnDrain {
		s.recorder.StopUploads()
	}
	if b.DeleteHeartbeatOnDrain {
		s.deleteHeartbeat(ctx)
	}
	if b.ReconnectOnDrain && b.ReconnectBeforeClose {
		s.tunnels.AdviseReconnect(ctx)
	}
	s.closeListeners()
	if b.ReconnectOnDrain && !b.ReconnectBeforeClose {
		s.tunnels.AdviseReconnect(ctx)
	}
	err := node.WaitIdle(ctx, s.active, func(n int) { s.env.Log.Info("shutdown: waiting for connections to finish", "active", n) })
	s.emitter.Flush(time.Second)
	return err
}

func (s *service) deleteHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.env.Auth.DeleteServer(ctx, types.KindProxy, s.env.Auth.Identity().HostUUID); err != nil {
		s.env.Log.Warn("delete own heartbeat", "err", err)
	}
}

// active counts what a drain waits for. Streams of Kubernetes count only where the imitated version is held by them.
func (s *service) active() int {
	n := s.ssh.active()
	if s.env.Behaviour.KubeExecHoldsDrain {
		n += s.kube.Active()
	}
	return n
}

func (s *service) stopBeats() {
	if s.beats != nil {
		s.beats()
	}
}

// Close cuts every connection at once.
func (s *service) Close() error {
	s.stopBeats()
	s.ssh.forward.Abandon()
	s.cancel()
	s.closeListeners()
	s.kube.Close()
	s.recorder.StopUploads()
	s.emitter.Close()
	s.work.Wait()
	return nil
}
