package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/rpc"
)

// Token lets hosts join. This version of the API knows no kubernetes method, so
// tokens are kept in a type of our own with the real one's JSON.
type Token struct {
	Kind     string         `json:"kind"`
	Version  string         `json:"version"`
	Metadata types.Metadata `json:"metadata"`
	Spec     TokenSpec      `json:"spec"`
}

// TokenSpec says which roles may join, and how.
type TokenSpec struct {
	Roles      []string       `json:"roles"`
	JoinMethod string         `json:"join_method,omitempty"`
	Kubernetes *KubernetesJWT `json:"kubernetes,omitempty"`
}

// KubernetesJWT lists the service accounts ("namespace:name") that may join.
type KubernetesJWT struct {
	Type  string `json:"type,omitempty"`
	Allow []struct {
		ServiceAccount string `json:"service_account"`
	} `json:"allow"`
}

func (a *Auth) createToken(ctx context.Context, raw []byte, force bool) error {
	var t Token
	if err := json.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("token: %w%w", err, silent{errBadRequest})
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("token: %w%w", err, silent{errBadRequest})
	}
	var expires time.Time
	if t.Metadata.Expires != nil {
		expires = *t.Metadata.Expires
	}
	return exists(a.store1(ctx, tokenKey(t.Metadata.Name), t, expires, force), "token %q already exists", t.Metadata.Name)
}

func (t *Token) check() error {
	if t.Metadata.Name == "" {
		return fmt.Errorf("missing parameter metadata.name")
	}
	if _, err := types.ParseTeleportRoles(strings.Join(t.Spec.Roles, ",")); err != nil {
		return err
	}
	switch t.Spec.JoinMethod {
	case "":
		t.Spec.JoinMethod = "token"
	case "token":
	case "kubernetes":
		if t.Spec.Kubernetes == nil || len(t.Spec.Kubernetes.Allow) == 0 {
			return fmt.Errorf("allow: at least one rule must be set")
		}
		for i, rule := range t.Spec.Kubernetes.Allow {
			if strings.Count(rule.ServiceAccount, ":") != 1 {
				return fmt.Errorf(`allow[%d].service_account: name of service account should be in format "namespace:service_account", got %q instead`, i, rule.ServiceAccount)
			}
		}
	default:
		return fmt.Errorf("unknown join method %q, allowed are token, kubernetes", t.Spec.JoinMethod)
	}
	t.Kind, t.Version = types.KindToken, types.V2
	return nil
}

// generateToken makes a token as `tctl tokens add` does.
func (a *Auth) generateToken(ctx context.Context, value string, roles types.SystemRoles, ttl time.Duration, labels map[string]string) (string, error) {
	if value == "" {
		b := make([]byte, 16)
		if _, err := rand.Read(b); err != nil {
			return "", err
		}
		value = hex.EncodeToString(b)
	}
	t := Token{Metadata: types.Metadata{Name: value, Labels: labels}, Spec: TokenSpec{Roles: roles.StringSlice()}}
	if err := t.check(); err != nil {
		return "", fmt.Errorf("token: %w%w", err, silent{errBadRequest})
	}
	expires := time.Now().UTC().Add(ttl)
	t.Metadata.Expires = &expires
	return value, a.putJSON(ctx, tokenKey(value), t, expires)
}

func (a *Auth) tokens(ctx context.Context) ([]*Token, error) {
	tokens, err := listJSON[Token](ctx, a.store, "tokens/")
	if err != nil {
		return nil, err
	}
	for _, s := range a.Config.Auth.Tokens {
		tokens = append(tokens, &Token{
			Kind: types.KindToken, Version: types.V2, Metadata: types.Metadata{Name: s.Token},
			Spec: TokenSpec{Roles: s.Roles.StringSlice(), JoinMethod: "token"},
		})
	}
	return tokens, nil
}

// Join checks a token and signs the host's keys.
func (a *Auth) Join(ctx context.Context, r *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	if err := a.checkJoin(ctx, r); err != nil {
		return nil, grpcError(err)
	}
	return a.SignHostKeys(r)
}

func (a *Auth) checkJoin(ctx context.Context, r *rpc.JoinRequest) error {
	if _, err := uuid.Parse(r.HostUUID); err != nil {
		return fmt.Errorf("host UUID %q: %w%w", r.HostUUID, err, silent{errBadRequest})
	}
	token, err := a.findToken(ctx, r.Token)
	if err != nil {
		return err
	}
	if token.Spec.JoinMethod != r.Method {
		return denied("this token is only valid for the %q join method but the node is using method %q", token.Spec.JoinMethod, r.Method)
	}
	if !slices.ContainsFunc(token.Spec.Roles, func(role string) bool { return strings.EqualFold(role, r.Role) }) {
		return denied("node %q [%v] can not join the cluster, the token does not allow %q role", r.NodeName, r.HostUUID, r.Role)
	}
	if r.Method == "kubernetes" {
		return a.checkServiceAccount(ctx, token, r.IDToken)
	}
	return nil
}

func (a *Auth) findToken(ctx context.Context, value string) (*Token, error) {
	tokens, err := a.tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if subtle.ConstantTimeCompare([]byte(t.Metadata.Name), []byte(value)) == 1 {
			return t, nil
		}
	}
	return nil, denied("the token is not valid: expired or never existed")
}

// SignHostKeys signs a host's keys without asking for a token: for the auth's
// own process.
func (a *Auth) SignHostKeys(r *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	started := time.Now()
	defer func() { a.metrics.signed.Inc(); a.metrics.generateSeconds.Observe(time.Since(started).Seconds()) }()
	sshKey, _, _, _, err := ssh.ParseAuthorizedKey(r.SSHKey)
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w%w", err, silent{errBadRequest})
	}
	tlsKey, err := x509.ParsePKIXPublicKey(r.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w%w", err, silent{errBadRequest})
	}
	host := ca.HostRequest{UUID: r.HostUUID, NodeName: r.NodeName, Role: r.Role, Principals: r.Principals}
	authority, err := a.hostAuthority(r)
	if err != nil {
		return nil, err
	}
	sshCert, err := authority.SignHostSSH(sshKey, host)
	if err != nil {
		return nil, err
	}
	tlsCert, err := a.host.SignHostTLS(tlsKey, host)
	if err != nil {
		return nil, err
	}
	return &rpc.JoinResponse{
		Cluster: a.cluster, SSHCert: ssh.MarshalAuthorizedKey(sshCert), TLSCert: tlsCert, Authorities: a.authorities(),
	}, nil
}

// hostAuthority is the authority that signs host keys; under the fault
// wrong-host-key it is one that nobody trusts.
func (a *Auth) hostAuthority(r *rpc.JoinRequest) (*ca.Authority, error) {
	if _, hit := a.Faults.Active(faults.WrongHostKey, r.HostUUID+"/"+r.Role); !hit {
		return a.host, nil
	}
	a.Faults.Record(faults.WrongHostKey, r.HostUUID, "host key of "+r.Role+" "+r.NodeName+" signed by an unknown authority")
	return ca.NewAuthority("host", a.cluster)
}

func (a *Auth) authorities() rpc.Authorities {
	return rpc.Authorities{
		UserSSH: [][]byte{ssh.MarshalAuthorizedKey(a.user.SSH.PublicKey())},
		HostSSH: [][]byte{ssh.MarshalAuthorizedKey(a.host.SSH.PublicKey())},
		UserTLS: a.user.CertPEM, HostTLS: a.host.CertPEM,
	}
}
