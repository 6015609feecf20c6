package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/rpc"
	"shakedown.dev/shakedown/standin/state"
)

// maxCertTTL is the longest life of a user's certificate (30 hours).
const maxCertTTL = 30 * time.Hour

// SignUser signs a user's keys for tctl, as long as the roles allow but no longer
// than asked.
func (a agent) SignUser(ctx context.Context, r *rpc.SignUserRequest) (*rpc.SignUserResponse, error) {
	if _, err := a.hostOnly(ctx, types.RoleAdmin); err != nil {
		return nil, err
	}
	checker, roles, err := a.userRoles(ctx, r.User)
	if err != nil {
		return nil, err
	}
	expires := time.Now().UTC().Add(min(r.TTL, checker.SessionTTL(maxCertTTL)))
	content := a.userContent(checker, roles, r.KubeCluster, expires)
	sshCert, tlsCert, err := a.signUser(ctx, r.SSHKey, r.TLSKey, content)
	if err != nil {
		return nil, grpcError(err)
	}
	return &rpc.SignUserResponse{SSHCert: sshCert, TLSCert: tlsCert, Expires: content.Expires}, nil
}

// GenerateUserCerts signs another key of the calling user, for no longer than the
// certificate that he calls with.
func (s *api) GenerateUserCerts(ctx context.Context, r *proto.UserCertsRequest) (*proto.Certs, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if c.access == nil || c.name != r.Username {
		return nil, denied("access denied: user %q has requested certificates for %q", c.name, r.Username)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(r.PublicKey)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "public key: %v", err)
	}
	crypto, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "public key of type %s cannot be used in TLS", key.Type())
	}
	tlsKey, err := x509.MarshalPKIXPublicKey(crypto.CryptoPublicKey())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "public key: %v", err)
	}
	checker, roles, err := s.userRoles(ctx, c.name)
	if err != nil {
		return nil, err
	}
	content := s.userContent(checker, roles, r.KubernetesCluster, earliest(r.Expires, c.expires, time.Now().Add(checker.SessionTTL(maxCertTTL))))
	sshCert, tlsCert, err := s.signUser(ctx, r.PublicKey, tlsKey, content)
	return &proto.Certs{SSH: sshCert, TLS: tlsCert}, grpcError(err)
}

func earliest(times ...time.Time) time.Time {
	first := times[0]
	for _, t := range times {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// userRoles reads a user's roles as they are now. That there is no such user is
// not said; the real program does not either.
func (a *Auth) userRoles(ctx context.Context, name string) (*access.Checker, []string, error) {
	user, err := a.getUser(ctx, name)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil, denied("access denied")
	}
	if err != nil {
		return nil, nil, grpcError(err)
	}
	checker, err := a.checker(ctx, name, user.GetRoles(), user.GetTraits())
	return checker, user.GetRoles(), err
}

func (a *Auth) userContent(c *access.Checker, roles []string, kubeCluster string, expires time.Time) ca.User {
	groups, users, _ := c.Kube(map[string]string{}) // none is no error here
	return ca.User{
		Name: c.User, Roles: roles, Traits: c.Traits, Logins: c.Logins(),
		KubeGroups: groups, KubeUsers: users, KubeCluster: kubeCluster,
		RouteToCluster: a.cluster, Cluster: a.cluster,
		ForwardAgent: c.ForwardAgent(), PortForwarding: c.PortForwarding(),
		Expires: expires.UTC().Truncate(time.Second),
	}
}

// signUser signs both certificates and says so in the audit log. Keys are in
// authorized_keys form and in PKIX.
func (a *Auth) signUser(ctx context.Context, sshKey, tlsKey []byte, content ca.User) (sshCert, tlsCert []byte, err error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(sshKey)
	if err != nil {
		return nil, nil, fmt.Errorf("SSH key: %w%w", err, silent{errBadRequest})
	}
	public, err := x509.ParsePKIXPublicKey(tlsKey)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS key: %w%w", err, silent{errBadRequest})
	}
	cert, err := a.user.SignUserSSH(key, content)
	if err != nil {
		return nil, nil, err
	}
	if tlsCert, err = a.user.SignUserTLS(public, content); err != nil {
		return nil, nil, err
	}
	a.metrics.signed.Inc()
	return ssh.MarshalAuthorizedKey(cert), tlsCert, a.emitCert(ctx, content)
}

func (a *Auth) emitCert(ctx context.Context, u ca.User) error {
	return a.Emit(ctx, &events.CertificateCreate{
		Metadata:        events.Metadata{Type: audit.CertCreate, Code: audit.CertCreateCode},
		CertificateType: "user",
		Identity: &events.Identity{
			User: u.Name, Roles: u.Roles, Logins: u.Logins, Expires: u.Expires, RouteToCluster: u.RouteToCluster,
			KubernetesCluster: u.KubeCluster, KubernetesGroups: u.KubeGroups, KubernetesUsers: u.KubeUsers, TeleportCluster: u.Cluster,
		},
	})
}
