package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/sshutil"
	"shakedown.dev/shakedown/standin/tunnel"
)

// service is the Kubernetes service of a process.
type service struct {
	env      process.Env
	name     string // of the Kubernetes cluster
	api      *apiServer
	emitter  *recorder.Emitter
	recorder *recorder.Host
	cluster  *node.ClusterCache
	trackers *node.Trackers
	http     *http.Server
	conns    *sshutil.Handoff
	tls      *tls.Config
	pool     *tunnel.Pool // nil: proxies dial this service
	listener net.Listener // nil: tunnel

	requests  atomic.Int64 // plain ones in hand
	streams   atomic.Int64 // upgraded connections
	abandoned atomic.Bool

	ctx    context.Context
	cancel context.CancelFunc
	beats  context.CancelFunc
	work   sync.WaitGroup
}

// New makes the Kubernetes service. It listens where listen_addr says, and is reached through tunnels without one.
func New(env process.Env) (process.Service, error) {
	api, err := findAPIServer(env.Config.Kube.KubeconfigFile)
	if err != nil {
		return nil, err
	}
	id := env.Auth.Identity()
	s := &service{env: env, api: api, name: cmp.Or(env.Config.Kube.ClusterName, id.Cluster), emitter: recorder.NewEmitter(env.Auth, env.Metrics, env.Log),
		cluster: node.NewClusterCache(env), trackers: node.NewTrackers(env.Auth, env.Scale, env.Log), conns: sshutil.NewHandoff(), tls: serverTLS(env)}
	s.recorder = recorder.NewHost(recorder.ConfigOf(env, s.emitter))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: quiet(env.Log), ConnContext: withPeer}
	if env.Config.Kube.ListenAddr == "" {
		if env.Config.Global.ProxyServer == "" {
			return nil, errors.New("kubernetes_service: listen_addr is required unless teleport.proxy_server is given")
		}
		s.pool = tunnel.NewPool(tunnel.PoolConfig{
			UUID: id.HostUUID, Version: env.Behaviour.Version, HostKey: id.SSH, HostCAs: node.HostCAs(env.Auth),
			Dial:   tunnel.Dialer{ProxyAddr: env.Config.Global.ProxyServer, Insecure: env.Insecure}.Dial,
			Handle: s.handle, KeepAlive: s.cluster.Get().KeepAlive, Backoff: env.TunnelBackoff, Log: env.Log,
		})
	}
	return s, nil
}

// Start listens or connects tunnels, and announces the service.
func (s *service) Start(ctx context.Context) error {
	if err := s.cluster.Refresh(ctx); err != nil {
		return fmt.Errorf("fetch cluster configuration: %w", err)
	}
	if err := s.recorder.Start(s.ctx); err != nil {
		return err
	}
	if s.pool != nil {
		s.work.Go(func() { s.pool.Run(s.ctx) })
	} else {
		l, err := net.Listen("tcp", s.env.Config.Kube.ListenAddr)
		if err != nil {
			return fmt.Errorf("listen for Kubernetes: %w", err)
		}
		s.listener = l
		s.work.Go(s.accept)
	}
	s.work.Go(s.serve)
	s.work.Go(func() { s.trackers.Run(s.ctx) })
	beatCtx, stop := context.WithCancel(s.ctx)
	s.beats = stop
	s.work.Go(func() { s.env.Beat(beatCtx, "kube", s.cluster.Refresh, s.describe) })
	return nil
}

func (s *service) serve() {
	if err := s.http.Serve(s.conns); !errors.Is(err, http.ErrServerClosed) {
		s.env.Log.Error("serve Kubernetes", "err", err)
	}
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

// handle serves one connection until it is closed; the end of ctx cuts it, streams too.
func (s *service) handle(ctx context.Context, raw net.Conn) {
	conn := tls.Server(raw, s.tls)
	if err := shakeHands(ctx, conn); err != nil {
		s.env.Log.Debug("TLS handshake", "remote", raw.RemoteAddr(), "err", err)
		return
	}
	s.conns.Serve(ctx, conn)
}

func (s *service) describe() types.Server {
	id := s.env.Auth.Identity()
	expires := time.Now().UTC().Add(s.env.Scale.Of(process.ServerTTL))
	spec := types.ServerSpecV2{
		Hostname: id.NodeName, Version: s.env.Behaviour.Version, UseTunnel: s.pool != nil,
		KubernetesClusters: []*types.KubernetesCluster{{Name: s.name, StaticLabels: s.env.Config.Kube.Labels}},
	}
	if s.listener != nil {
		spec.Addr = node.Advertised(s.env, s.env.Config.Kube.PublicAddr, s.listener.Addr().String())
	}
	return &types.ServerV2{Kind: types.KindKubeService, Version: types.V2, Spec: spec, Metadata: types.Metadata{Name: id.HostUUID, Namespace: "default", Expires: &expires}}
}

// ServeHTTP finds out whose request it is and what it wants.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u, err := s.identify(r)
	if err != nil {
		fail(w, http.StatusUnauthorized, fmt.Errorf("access denied: %w", err))
		return
	}
	if u.Cluster != "" && u.Cluster != s.name {
		fail(w, http.StatusNotFound, fmt.Errorf("kubernetes cluster %q not found", u.Cluster))
		return
	}
	a, err := s.access(r.Context(), u)
	if err != nil {
		fail(w, http.StatusForbidden, err)
		return
	}
	req := &request{service: s, user: u, access: a, resource: parsePath(r.URL.Path), remote: cmp.Or(r.Header.Get(headerClientAddr), r.RemoteAddr)}
	if isUpgrade(r) {
		s.streams.Add(1)
		defer s.streams.Add(-1)
	} else {
		s.requests.Add(1)
		defer s.requests.Add(-1)
	}
	req.serve(w, r)
}

// identify believes a proxy's word, and else a user's own certificate.
func (s *service) identify(r *http.Request) (user, error) {
	cas, err := s.env.Auth.Authorities(r.Context())
	if err != nil {
		return user{}, err
	}
	p, err := verify(peerState(r.Context()), cas.UserTLS, cas.HostTLS)
	if err != nil {
		return user{}, err
	}
	if !p.host {
		return userOf(p.cert)
	}
	if !isProxy(p.cert) {
		return user{}, errors.New("only proxies may speak for users")
	}
	u, err := decodeUser(r.Header.Get(headerIdentity))
	if err == nil && time.Now().After(u.Expires) {
		err = errors.New("user certificate has expired")
	}
	return u, err
}

func isProxy(cert *x509.Certificate) bool {
	return slices.ContainsFunc(cert.Subject.Organization, func(role string) bool { return strings.EqualFold(role, string(types.RoleProxy)) })
}

// impersonation is in whose name requests reach the API server.
type impersonation struct {
	user   string
	groups []string
	users  []string
	strict bool
}

func (s *service) access(ctx context.Context, u user) (impersonation, error) {
	checker, err := s.env.Auth.Access(ctx, u.Roles, u.Traits)
	if err != nil {
		return impersonation{}, err
	}
	groups, users, err := checker.Kube(s.env.Config.Kube.Labels)
	if err != nil {
		return impersonation{}, fmt.Errorf("access denied for user %s: %w", u.Name, err)
	}
	a := impersonation{user: u.Name, groups: slices.Clone(groups), users: users, strict: checker.StrictRecording()}
	if len(users) == 1 {
		a.user = users[0]
	}
	if !slices.Contains(a.groups, "system:authenticated") {
		a.groups = append(a.groups, "system:authenticated")
	}
	return a, nil
}

// Drain stops announcing and listening and waits as the imitated version does: for plain requests, and for streams only where they hold it.
func (s *service) Drain(ctx context.Context) error {
	if s.beats != nil {
		s.beats()
	}
	b := s.env.Behaviour
	if b.UploaderStopsOnDrain {
		s.recorder.StopUploads()
	}
	if b.KubeEmitterClosedFirst {
		s.emitter.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	err := node.WaitIdle(ctx, func() int {
		n := s.requests.Load()
		if b.KubeExecHoldsDrain {
			n += s.streams.Load()
		}
		return int(n)
	}, func(n int) { s.env.Log.Info("shutdown: waiting for Kubernetes requests to finish", "active", n) })
	s.emitter.Flush(time.Second)
	return err
}

// Close cuts every connection; recordings of open streams stay unfinished.
func (s *service) Close() error {
	s.abandoned.Store(true)
	if s.beats != nil {
		s.beats()
	}
	s.cancel()
	if s.listener != nil {
		s.listener.Close()
	}
	s.http.Close()
	s.recorder.StopUploads()
	s.emitter.Close()
	s.work.Wait()
	return nil
}
