package authclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/rpc"
)

// Remote is a Client over gRPC.
type Remote struct {
	identity *Identity
	target   Target
	conn     *grpc.ClientConn
	api      proto.AuthServiceClient

	authorities cache[*Authorities]
	servers     kindCache[types.Server]
	roles       kindCache[types.Role]
}

var _ Client = (*Remote)(nil)

// How long answers are kept. The real program's cache follows a watcher; these
// are short enough to look the same from outside.
const (
	authoritiesTTL = 5 * time.Second
	serversTTL     = 250 * time.Millisecond
	rolesTTL       = 2 * time.Second
)

// Connect makes a client with identity. It does not wait for the auth.
func Connect(t Target, identity *Identity) (*Remote, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(identity.hostTLS) {
		return nil, errors.New("connect to auth: no host authority in the identity")
	}
	t.Cluster = identity.Cluster
	cfg := &tls.Config{Certificates: []tls.Certificate{identity.TLS}, RootCAs: pool, ServerName: encode(identity.Cluster)}
	conn, err := t.open(cfg, grpc.ForceCodecV2(rpc.Codec{}))
	if err != nil {
		return nil, fmt.Errorf("connect to auth: %w", err)
	}
	return &Remote{identity: identity, target: t, conn: conn, api: proto.NewAuthServiceClient(conn)}, nil
}

// Conn is the connection, and API the real service on it, for tctl.
func (r *Remote) Conn() *grpc.ClientConn       { return r.conn }
func (r *Remote) API() proto.AuthServiceClient { return r.api }

// Identity implements Client.
func (r *Remote) Identity() *Identity { return r.identity }

// Close implements Client.
func (r *Remote) Close() error { return r.conn.Close() }

// DialAuth implements Client.
func (r *Remote) DialAuth(ctx context.Context) (io.ReadWriteCloser, error) {
	return r.target.dial(ctx)
}

// Authorities implements Client.
func (r *Remote) Authorities(ctx context.Context) (*Authorities, error) {
	return r.authorities.get(authoritiesTTL, func() (*Authorities, error) {
		raw, err := rpc.Call[rpc.Authorities](ctx, r.conn, "Authorities", &rpc.Empty{})
		if err != nil {
			return nil, err
		}
		return parseAuthorities(raw)
	})
}

func parseAuthorities(raw *rpc.Authorities) (*Authorities, error) {
	a := &Authorities{UserTLS: x509.NewCertPool(), HostTLS: x509.NewCertPool(), UserTLSPEM: raw.UserTLS, HostTLSPEM: raw.HostTLS}
	for _, list := range []struct {
		from [][]byte
		to   *[]ssh.PublicKey
	}{{raw.UserSSH, &a.UserSSH}, {raw.HostSSH, &a.HostSSH}} {
		for _, b := range list.from {
			key, _, _, _, err := ssh.ParseAuthorizedKey(b)
			if err != nil {
				return nil, fmt.Errorf("read authority: %w", err)
			}
			*list.to = append(*list.to, key)
		}
	}
	if !a.UserTLS.AppendCertsFromPEM(raw.UserTLS) || !a.HostTLS.AppendCertsFromPEM(raw.HostTLS) {
		return nil, errors.New("read authority: no certificate")
	}
	return a, nil
}

// ClusterConfig implements Client. It is never kept, so that it shows whether the
// auth is there.
func (r *Remote) ClusterConfig(ctx context.Context) (*ClusterConfig, error) {
	return rpc.Call[ClusterConfig](ctx, r.conn, "ClusterConfig", &rpc.Empty{})
}

// Access implements Client.
func (r *Remote) Access(ctx context.Context, roles []string, traits map[string][]string) (*access.Checker, error) {
	c := &access.Checker{Traits: traits}
	for _, name := range roles {
		found, err := r.roles.get(name, rolesTTL, func() ([]types.Role, error) {
			role, err := r.api.GetRole(ctx, &proto.GetRoleRequest{Name: name})
			return []types.Role{role}, err
		})
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", name, err)
		}
		c.Roles = append(c.Roles, found...)
	}
	return c, nil
}

// UpsertServer implements Client.
func (r *Remote) UpsertServer(ctx context.Context, server types.Server) error {
	v2, ok := server.(*types.ServerV2)
	if !ok {
		return fmt.Errorf("announce %s: unknown type %T", server.GetKind(), server)
	}
	b, err := v2.Marshal()
	if err != nil {
		return err
	}
	_, err = rpc.Call[rpc.Empty](ctx, r.conn, "UpsertServers", &rpc.Servers{Items: [][]byte{b}})
	return err
}

// DeleteServer implements Client.
func (r *Remote) DeleteServer(ctx context.Context, kind, name string) error {
	_, err := rpc.Call[rpc.Empty](ctx, r.conn, "DeleteServer", &rpc.ServersRequest{Kind: kind, Name: name})
	return err
}

// Servers implements Client.
func (r *Remote) Servers(ctx context.Context, kind string) ([]types.Server, error) {
	return r.servers.get(kind, serversTTL, func() ([]types.Server, error) {
		raw, err := rpc.Call[rpc.Servers](ctx, r.conn, "Servers", &rpc.ServersRequest{Kind: kind})
		if err != nil {
			return nil, err
		}
		out := make([]types.Server, 0, len(raw.Items))
		for _, b := range raw.Items {
			s := new(types.ServerV2)
			if err := s.Unmarshal(b); err != nil {
				return nil, fmt.Errorf("read server: %w", err)
			}
			out = append(out, s)
		}
		return out, nil
	})
}

// Emit implements Client.
func (r *Remote) Emit(ctx context.Context, event events.AuditEvent) error {
	oneof, err := events.ToOneOf(event)
	if err != nil {
		return err
	}
	_, err = r.api.EmitAuditEvent(ctx, oneof)
	return err
}

// Playback implements Client.
func (r *Remote) Playback(ctx context.Context, sid string, yield func(events.AuditEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.api.StreamSessionEvents(ctx, &proto.StreamSessionEventsRequest{SessionID: sid})
	if err != nil {
		return err
	}
	for {
		oneof, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		event, err := events.FromOneOf(*oneof)
		if err != nil {
			return err
		}
		if err := yield(event); err != nil {
			return err
		}
	}
}

// SignHost implements Client.
func (r *Remote) SignHost(ctx context.Context, key ssh.PublicKey, principals []string) (*ssh.Certificate, error) {
	resp, err := rpc.Call[rpc.HostCert](ctx, r.conn, "SignHost", &rpc.HostCertRequest{SSHKey: ssh.MarshalAuthorizedKey(key), Principals: principals})
	if err != nil {
		return nil, err
	}
	signed, _, _, _, err := ssh.ParseAuthorizedKey(resp.Cert)
	if err != nil {
		return nil, err
	}
	cert, ok := signed.(*ssh.Certificate)
	if !ok {
		return nil, errors.New("the auth answered with a key, not a certificate")
	}
	return cert, nil
}
