package authclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Target is where the auth is, and how to get there.
type Target struct {
	// Addrs are auths reached directly; each connection tries them in turn.
	Addrs []string
	// Proxy is a proxy's web address, used when there are no Addrs: the
	// connection goes through its port with ALPN teleport-auth@.
	Proxy string
	// Insecure leaves the proxy's web certificate unverified.
	Insecure bool
	// Cluster is the cluster's name, needed for the way through a proxy.
	Cluster string
	Log     *slog.Logger
}

const dialTimeout = 10 * time.Second

// dial opens a TCP connection towards the auth's TLS.
func (t Target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	addrs := t.Addrs
	if len(addrs) == 0 {
		addrs = []string{t.Proxy}
	}
	var errs []error
	for _, addr := range addrs {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("reach auth: %w", errors.Join(errs...))
}

// protocols is the ALPN list: a proxy routes by the first entry.
func (t Target) protocols() []string {
	if len(t.Addrs) > 0 {
		return []string{"h2"}
	}
	return []string{"teleport-auth@" + encode(t.Cluster), "h2"}
}

// encode is the server name under which an auth answers (hex of the cluster's
// name; api/utils/cluster.go).
func encode(cluster string) string { return fmt.Sprintf("%x.teleport.cluster.local", cluster) }

// open makes a gRPC connection that redials by itself.
func (t Target) open(cfg *tls.Config, codec grpc.CallOption) (*grpc.ClientConn, error) {
	cfg = cfg.Clone()
	cfg.NextProtos = t.protocols()
	cfg.MinVersion = tls.VersionTLS12
	return grpc.NewClient("passthrough:///auth",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return t.dial(ctx) }),
		grpc.WithTransportCredentials(alpnCreds{credentials.NewTLS(cfg), cfg}),
		grpc.WithDefaultCallOptions(codec, grpc.MaxCallRecvMsgSize(64*1024*1024)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialTimeout, Backoff: backoff.Config{
			BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second,
		}}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 15 * time.Second, PermitWithoutStream: true}),
		grpc.WithReadBufferSize(8*1024), grpc.WithWriteBufferSize(8*1024), grpc.WithDisableServiceConfig(),
	)
}

// alpnCreds does the handshake itself, because gRPC's own would replace the ALPN
// list by "h2" and refuse an auth behind a proxy.
type alpnCreds struct {
	credentials.TransportCredentials
	cfg *tls.Config
}

func (c alpnCreds) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Client(raw, c.cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	return conn, credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

func (c alpnCreds) Clone() credentials.TransportCredentials {
	return alpnCreds{c.TransportCredentials.Clone(), c.cfg}
}

// cache keeps one answer for a while, so that callers may ask per handshake.
type cache[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

func (c *cache[T]) get(ttl time.Duration, load func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.value, nil
	}
	fresh, err := load()
	if err != nil {
		if !c.until.IsZero() {
			return c.value, nil // the real program's cache outlives its auth too
		}
		return fresh, err
	}
	c.value, c.until = fresh, time.Now().Add(ttl)
	return fresh, nil
}

// kindCache is a cache of lists by name.
type kindCache[T any] struct {
	mu sync.Mutex
	by map[string]*cache[[]T]
}

func (k *kindCache[T]) get(name string, ttl time.Duration, load func() ([]T, error)) ([]T, error) {
	k.mu.Lock()
	if k.by == nil {
		k.by = map[string]*cache[[]T]{}
	}
	c := k.by[name]
	if c == nil {
		c = &cache[[]T]{}
		k.by[name] = c
	}
	k.mu.Unlock()
	return c.get(ttl, load)
}
