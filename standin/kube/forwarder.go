package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/sshutil"
	"shakedown.dev/shakedown/standin/tunnel"
)

// ForwarderConfig is what the proxy's Kubernetes forwarder needs.
type ForwarderConfig struct {
	Env     process.Env
	Servers func(context.Context) []types.Server // Kubernetes services known now
	Tunnels *tunnel.Server
}

// Forwarder passes users' requests on to the Kubernetes service of the cluster that their certificate names.
type Forwarder struct {
	cfg    ForwarderConfig
	http   *http.Server
	conns  *sshutil.Handoff
	active atomic.Int64 // upgraded streams
	tls    *tls.Config
}

// NewForwarder gives a forwarder that serves once Serve runs.
func NewForwarder(cfg ForwarderConfig) *Forwarder {
	f := &Forwarder{cfg: cfg, conns: sshutil.NewHandoff(), tls: serverTLS(cfg.Env)}
	f.http = &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: quiet(cfg.Env.Log), ConnContext: withPeer}
	return f
}

// quiet keeps what net/http says of single connections at debug level.
func quiet(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }

// TLSConfig is for connections that come in on the web port.
func (f *Forwarder) TLSConfig() *tls.Config { return f.tls }

// Serve answers requests until ctx ends.
func (f *Forwarder) Serve(ctx context.Context) {
	context.AfterFunc(ctx, func() { f.http.Close() })
	if err := f.http.Serve(f.conns); !errors.Is(err, http.ErrServerClosed) {
		f.cfg.Env.Log.Error("serve Kubernetes", "err", err)
	}
}

// Handle serves a connection of the Kubernetes port.
func (f *Forwarder) Handle(ctx context.Context, conn net.Conn) {
	f.HandleTLS(ctx, tls.Server(conn, f.tls))
}

// HandleTLS serves a TLS connection until it is closed or ctx ends, which cuts streams too.
func (f *Forwarder) HandleTLS(ctx context.Context, conn *tls.Conn) {
	if shakeHands(ctx, conn) == nil {
		f.conns.Serve(ctx, conn)
	}
}

// Active is the number of open streams.
func (f *Forwarder) Active() int { return int(f.active.Load()) }

// Close cuts everything.
func (f *Forwarder) Close() { f.http.Close() }

// ServeHTTP authenticates the user and passes the request on.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cas, err := f.cfg.Env.Auth.Authorities(r.Context())
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	p, err := verify(peerState(r.Context()), cas.UserTLS, cas.HostTLS)
	if err != nil || p.host {
		fail(w, http.StatusUnauthorized, fmt.Errorf("access denied: a user certificate of this cluster is required: %w", errors.Join(err)))
		return
	}
	u, err := userOf(p.cert)
	if err != nil {
		fail(w, http.StatusUnauthorized, err)
		return
	}
	to, name, err := f.pick(r.Context(), u.Cluster)
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	u.Cluster = name
	if isUpgrade(r) {
		f.active.Add(1)
		defer f.active.Add(-1)
	}
	f.forward(w, r, to, u)
}

func isUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// pick chooses services of the wanted Kubernetes cluster; "" is the only one there is, or the one with the Teleport cluster's name.
func (f *Forwarder) pick(ctx context.Context, want string) ([]types.Server, string, error) {
	servers := f.cfg.Servers(ctx)
	if want == "" {
		want = f.cfg.Env.Auth.Identity().Cluster
		if len(servers) > 0 && !slices.ContainsFunc(servers, func(s types.Server) bool { return slices.Contains(clustersOf(s), want) }) {
			if names := clustersOf(servers[0]); len(names) > 0 {
				want = names[0]
			}
		}
	}
	var found []types.Server
	for _, s := range servers {
		if slices.Contains(clustersOf(s), want) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, "", fmt.Errorf("kubernetes cluster %q not found", want)
	}
	return found, want, nil
}

// forward passes one request on, over a connection of its own: the services behind are few and requests of one user rarely many.
func (f *Forwarder) forward(w http.ResponseWriter, r *http.Request, to []types.Server, u user) {
	identity, err := u.encode()
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	conns := &connSet{}
	defer conns.close()
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      quiet(f.cfg.Env.Log),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "https", Host: "kube"})
			pr.Out.Header.Set(headerIdentity, identity)
			pr.Out.Header.Set(headerClientAddr, r.RemoteAddr)
		},
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := f.dial(ctx, to)
				if err == nil {
					conns.add(conn)
				}
				return conn, err
			},
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			f.cfg.Env.Log.Warn("forward Kubernetes request", "user", u.Name, "cluster", u.Cluster, "err", err)
			fail(w, http.StatusBadGateway, fmt.Errorf("connect to kubernetes service: %w", err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// serviceName is a name that the certificate of every Kubernetes service has: behind a common address any may answer.
const serviceName = "kube.teleport.cluster.local"

// dial tries the services in turn: by tunnel, else at the address they announce.
func (f *Forwarder) dial(ctx context.Context, to []types.Server) (net.Conn, error) {
	cas, err := f.cfg.Env.Auth.Authorities(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range to {
		raw, err := f.dialOne(ctx, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		conn := tls.Client(raw, &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{f.cfg.Env.Auth.Identity().TLS}, RootCAs: cas.HostTLS, ServerName: serviceName,
		})
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			errs = append(errs, err)
			continue
		}
		return conn, nil
	}
	return nil, errors.Join(errs...)
}

func (f *Forwarder) dialOne(ctx context.Context, s types.Server) (net.Conn, error) {
	conn, err := f.cfg.Tunnels.Dial(s.GetName(), tunnel.KindKube, tunnel.LocalKubernetes)
	if err == nil || !errors.Is(err, tunnel.ErrNoTunnel) || s.GetAddr() == "" {
		return conn, err
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	return dialer.DialContext(ctx, "tcp", s.GetAddr())
}

// connSet closes what a request dialled.
type connSet struct {
	mu    sync.Mutex
	conns []io.Closer
}

func (c *connSet) add(conn io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
}

func (c *connSet) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}
