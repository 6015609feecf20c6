package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/recordings"
	"shakedown.dev/shakedown/standin/state"
)

// caller is who makes a call: a member of the cluster with a role, or a user.
type caller struct {
	name   string
	role   types.SystemRole // of a host; empty for a user
	uuid   string
	access *access.Checker // of a user

	expires time.Time // of the certificate that he calls with
}

// caller finds out who is at the other end from the verified certificate.
func (a *Auth) caller(ctx context.Context) (*caller, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil, status.Error(codes.PermissionDenied, "missing authentication: no client certificate")
	}
	chain := info.State.VerifiedChains[0]
	if chain[len(chain)-1].Equal(a.host.TLSCert) {
		return a.hostCaller(chain[0])
	}
	return a.userCaller(ctx, chain[0])
}

func (a *Auth) hostCaller(cert *x509.Certificate) (*caller, error) {
	if len(cert.Subject.Organization) == 0 {
		return nil, status.Error(codes.PermissionDenied, "host certificate without a role")
	}
	uuid, _, _ := strings.Cut(cert.Subject.CommonName, ".")
	return &caller{name: cert.Subject.CommonName, role: types.SystemRole(cert.Subject.Organization[0]), uuid: uuid}, nil
}

func (a *Auth) userCaller(ctx context.Context, cert *x509.Certificate) (*caller, error) {
	user, err := ca.UserFromTLS(cert)
	if err != nil {
		return nil, status.Errorf(codes.PermissionDenied, "bad certificate: %v", err)
	}
	if _, err := a.getUser(ctx, user.Name); err != nil {
		return nil, status.Errorf(codes.PermissionDenied, "access denied: user %q is not found", user.Name)
	}
	checker, err := a.checker(ctx, user.Name, user.Roles, user.Traits)
	if err != nil {
		return nil, err
	}
	return &caller{name: user.Name, access: checker, expires: cert.NotAfter}, nil
}

// checker gathers roles by name; one that is gone denies access, as it does in
// the real program.
func (a *Auth) checker(ctx context.Context, user string, roles []string, traits map[string][]string) (*access.Checker, error) {
	c := &access.Checker{User: user, Traits: traits}
	for _, name := range roles {
		role, err := a.role(ctx, name)
		if err != nil {
			return nil, grpcError(err)
		}
		c.Roles = append(c.Roles, role)
	}
	return c, nil
}

// host lets members with one of roles pass; without roles, every member.
func (a *Auth) hostOnly(ctx context.Context, roles ...types.SystemRole) (*caller, error) {
	c, err := a.caller(ctx)
	if err != nil {
		return nil, err
	}
	if c.role == "" || len(roles) > 0 && !slices.Contains(append(roles, types.RoleAdmin, types.RoleAuth), c.role) {
		return nil, status.Errorf(codes.PermissionDenied, "access denied: %s may not do this", c.name)
	}
	return c, nil
}

// allowed lets members pass, and users whose roles allow verb on resource.
func (a *Auth) allowed(ctx context.Context, resource string, verbs ...string) (*caller, error) {
	c, err := a.caller(ctx)
	if err != nil {
		return nil, err
	}
	if c.role != "" {
		return c, nil
	}
	for _, verb := range verbs {
		if err := c.access.Allowed(resource, verb); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}
	return c, nil
}

// admin lets the auth itself and tctl pass, and users whose roles allow verb.
func (a *Auth) admin(ctx context.Context, resource, verb string) (*caller, error) {
	c, err := a.caller(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case c.role == types.RoleAdmin || c.role == types.RoleAuth:
		return c, nil
	case c.role != "":
		return nil, status.Errorf(codes.PermissionDenied, "access denied: %s may not do this", c.name)
	}
	if err := c.access.Allowed(resource, verb); err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return c, nil
}

// grpcError gives an error the code that the API's clients know.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, state.ErrNotFound), errors.Is(err, recordings.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, state.ErrExists):
		code = codes.AlreadyExists
	case errors.Is(err, errBadRequest):
		code = codes.InvalidArgument
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.Unavailable
	}
	return status.Error(code, err.Error())
}

var errBadRequest = errors.New("bad parameter")
