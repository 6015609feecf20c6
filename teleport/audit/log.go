// Package audit reads a Teleport cluster's audit log and recordings from outside, through the auth server's gRPC
// API over mutual TLS. It uses Teleport's generated messages (Apache-2.0) and none of its client: that one brings
// its own discovery of addresses, where here the caller's dialer decides.
package audit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/teleport/identity"
)

// Options say how to reach the auth server.
type Options struct {
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: a net.Dialer
	Address  string                                                               // host:port of an auth server, or of a proxy's web port with ViaProxy
	ViaProxy bool                                                                 // let the proxy pass the connection on, by ALPN
	// Identity gives the credentials at each new connection, so that renewed ones are used. Its user's own
	// looks at recordings are left out of Events.
	Identity func() *identity.Identity
	// Rate bounds the calls per second; zero: 20. Reading thousands of recordings must not be the load.
	Rate rate.Limit
	// Patience is how long one call is tried again while the server cannot be reached; zero: 30 s.
	Patience time.Duration
}

// Log is a client of the audit log. It connects when needed and again when the connection breaks, and is safe for
// use by many goroutines.
type Log struct {
	opts  Options
	conn  *grpc.ClientConn
	auth  proto.AuthServiceClient
	limit *rate.Limiter
	user  string
}

// maxMessage bounds one answer; a page of audit events may be large.
const maxMessage = 64 << 20

// Open makes a Log. Nothing is dialled yet.
func Open(opts Options) (*Log, error) {
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	if opts.Rate == 0 {
		opts.Rate = 20
	}
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	conn, err := grpc.NewClient("passthrough:///"+opts.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(opts.tls())),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return opts.Dial(ctx, "tcp", address) }),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	)
	if err != nil {
		return nil, fmt.Errorf("audit log at %s: %w", opts.Address, err)
	}
	return &Log{opts: opts, conn: conn, auth: proto.NewAuthServiceClient(conn), limit: rate.NewLimiter(opts.Rate, int(opts.Rate)+1), user: opts.Identity().User}, nil
}

// Close ends the connection.
func (l *Log) Close() error { return l.conn.Close() }

func (o Options) tls() *tls.Config {
	id := o.Identity()
	conf := id.AuthTLS()
	if o.ViaProxy {
		// The hex form of the cluster's name again, as in the server name (Teleport's EncodeClusterName).
		conf.NextProtos = []string{"teleport-auth@" + conf.ServerName, "h2"}
	}
	conf.Certificates = nil
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &o.Identity().AuthTLS().Certificates[0], nil
	}
	return conf
}

// Server is what the auth server says of itself.
type Server struct {
	Cluster string
	Version string
}

// Ping asks the auth server who it is.
func (l *Log) Ping(ctx context.Context) (Server, error) {
	var s Server
	err := l.call(ctx, "ping", func(ctx context.Context) error {
		r, err := l.auth.Ping(ctx, &proto.PingRequest{})
		if err == nil {
			s = Server{Cluster: r.ClusterName, Version: r.ServerVersion}
		}
		return err
	})
	return s, err
}

// ErrNotFound means that the auth server has no such thing: a recording that is not uploaded (yet), a session
// without a tracker.
var ErrNotFound = errors.New("not found")

// call runs f at the log's rate, and again while the server cannot be reached. f must start over each time.
func (l *Log) call(ctx context.Context, what string, f func(context.Context) error) error {
	deadline := time.Now().Add(l.opts.Patience)
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 3*time.Second) {
		if err := l.limit.Wait(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		err := f(ctx)
		if err == nil {
			return nil
		}
		if !retryable(err) || time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, l.explain(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}

// explain says what to do about an error.
func (l *Log) explain(err error) error {
	id := l.opts.Identity()
	switch code := status.Code(err); {
	case code == codes.NotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, status.Convert(err).Message())
	case id.Expired(time.Now(), 0):
		return fmt.Errorf("%w (the identity of %s expired at %s: sign a new one)", err, id.User, id.Expires.Format("15:04:05"))
	case code == codes.PermissionDenied:
		return fmt.Errorf("%w (the role of %s must allow list and read of event, session and session_tracker)", err, id.User)
	case code == codes.Unavailable:
		return fmt.Errorf("%w (no auth server answers at %s)", err, l.opts.Address)
	}
	return err
}
