package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // the API's client compresses audit streams
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/rpc"
)

// Server puts an Auth on the network. It implements process.Service.
type Server struct {
	auth *Auth
	grpc *grpc.Server
	addr net.Addr
	once sync.Once
	err  error
}

var _ process.Service = (*Server)(nil)

// NewServer makes a server of an open Auth; Close closes both.
func NewServer(a *Auth) *Server { return &Server{auth: a} }

// Addr is where the server listens, once Start has returned.
func (s *Server) Addr() net.Addr { return s.addr }

// Start listens and serves.
func (s *Server) Start(ctx context.Context) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.auth.Config.Auth.ListenAddr)
	if err != nil {
		return fmt.Errorf("listen for auth: %w", err)
	}
	s.addr = lis.Addr()
	tlsConfig, err := s.tlsConfig()
	if err != nil {
		return errors.Join(err, lis.Close())
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(tlsConfig)), grpc.ForceServerCodecV2(rpc.Codec{}),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ReadBufferSize(8*1024), grpc.WriteBufferSize(8*1024),
		grpc.MaxRecvMsgSize(8*1024*1024), grpc.WaitForHandlers(true),
	)
	proto.RegisterAuthServiceServer(s.grpc, &api{Auth: s.auth})
	s.grpc.RegisterService(rpc.Desc(), agent{s.auth})
	s.auth.background.Add(2)
	go s.auth.announce(s.advertised())
	go s.auth.completer()
	go func() {
		if err := s.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.auth.Log.Error("auth stopped serving", "error", err)
		}
	}()
	return nil
}

func (s *Server) advertised() string {
	if addrs := s.auth.Config.Auth.PublicAddr; len(addrs) > 0 {
		return addrs[0]
	}
	if ip := s.auth.Config.Global.AdvertiseIP; ip != "" {
		_, port, _ := net.SplitHostPort(s.addr.String())
		return net.JoinHostPort(ip, port)
	}
	return s.addr.String()
}

// tlsConfig asks for a client certificate of either authority and takes
// connections without one, because joining has none yet.
func (s *Server) tlsConfig() (*tls.Config, error) {
	key, keyPEM, err := ca.NewKey()
	if err != nil {
		return nil, err
	}
	names := append(s.auth.Config.Auth.PublicAddr, s.auth.Config.Global.AdvertiseIP)
	for i, name := range names {
		if host, _, err := net.SplitHostPort(name); err == nil {
			names[i] = host
		}
	}
	certPEM, err := s.auth.host.SignHostTLS(key.Public(), ca.HostRequest{UUID: s.auth.HostUUID, NodeName: s.auth.Config.Global.NodeName, Role: "Auth", Principals: names})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(s.auth.host.TLSCert)
	clients.AddCert(s.auth.user.TLSCert)
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	}, nil
}

// dead says why a call is refused under the fault ready-while-dead.
func (s *Server) dead(method string) error {
	if _, hit := s.auth.Faults.Active(faults.ReadyWhileDead, ""); !hit {
		return nil
	}
	s.auth.Faults.Record(faults.ReadyWhileDead, "", "refused "+method)
	return status.Error(codes.Unavailable, "connection closed")
}

// slowAuth is how slow every call is when the fault's rule does not say.
const slowAuth = 2 * time.Second

func (s *Server) delay(ctx context.Context, method string) error {
	s.auth.metrics.requests.Inc()
	if err := s.dead(method); err != nil {
		return err
	}
	rule, hit := s.auth.Faults.Active(faults.SlowAuth, "")
	if !hit {
		return nil
	}
	select {
	case <-time.After(rule.Duration(slowAuth)):
		s.auth.Faults.Record(faults.SlowAuth, "", method)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := s.delay(ctx, info.FullMethod); err != nil {
		return nil, grpcError(err)
	}
	return handler(ctx, req)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := s.delay(stream.Context(), info.FullMethod); err != nil {
		return grpcError(err)
	}
	return handler(srv, stream)
}

// Drain cuts everything at once: the real auth has no graceful shutdown either.
func (s *Server) Drain(context.Context) error {
	s.auth.Log.Info("Shutting down immediately (auth service does not currently support graceful shutdown).")
	return s.Close()
}

// Close cuts all connections and closes the state. It may be called again.
func (s *Server) Close() error {
	s.once.Do(func() {
		if s.grpc != nil {
			s.grpc.Stop()
		}
		s.err = s.auth.Close()
	})
	return s.err
}
