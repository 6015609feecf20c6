package authclient

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gravitational/teleport/api/types"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"

	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/rpc"
)

// JoinParams is how a host becomes a member.
type JoinParams struct {
	Method   string // token or kubernetes
	Token    string // the token, or its name
	HostUUID string
	NodeName string
	Role     types.SystemRole
	// Principals are further names of the host (public addresses).
	Principals []string
	// CAPins, if any, are what one of the auth's authorities must match.
	CAPins []string
	// JWTFile is the service account's token; empty: where Kubernetes puts it.
	JWTFile string
}

const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// keys are a host's private halves.
type keys struct {
	ssh    ssh.Signer
	tls    crypto.Signer
	tlsPEM []byte
}

// Join asks the auth at t for an identity.
func Join(ctx context.Context, t Target, p JoinParams) (*Identity, error) {
	req, k, err := Request(p)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{ServerName: encode(t.Cluster), InsecureSkipVerify: true, VerifyPeerCertificate: checkPins(p.CAPins)}
	conn, err := t.open(cfg, grpc.ForceCodecV2(rpc.Codec{}))
	if err != nil {
		return nil, fmt.Errorf("join as %s: %w", p.Role, err)
	}
	defer conn.Close()
	resp, err := rpc.Call[rpc.JoinResponse](ctx, conn, "Join", req)
	if err != nil {
		return nil, fmt.Errorf("join as %s: %w", p.Role, err)
	}
	return k.identity(p, resp)
}

// Request makes keys and the request for their certificates. Sign turns the
// answer into an identity.
func Request(p JoinParams) (*rpc.JoinRequest, *keys, error) {
	k, err := newKeys()
	if err != nil {
		return nil, nil, err
	}
	tlsKey, err := x509.MarshalPKIXPublicKey(k.tls.Public())
	if err != nil {
		return nil, nil, err
	}
	req := &rpc.JoinRequest{
		Method: p.Method, Token: p.Token, HostUUID: p.HostUUID, NodeName: p.NodeName, Role: string(p.Role),
		Principals: p.Principals, SSHKey: ssh.MarshalAuthorizedKey(k.ssh.PublicKey()), TLSKey: tlsKey,
	}
	if p.Method == "kubernetes" {
		path := p.JWTFile
		if path == "" {
			path = serviceAccountToken
		}
		jwt, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("join by service account: %w", err)
		}
		req.IDToken = strings.TrimSpace(string(jwt))
	}
	return req, k, nil
}

// Sign turns the auth's answer into an identity; for the auth's own process,
// which needs no token.
func Sign(p JoinParams, sign func(*rpc.JoinRequest) (*rpc.JoinResponse, error)) (*Identity, error) {
	p.Method = "token"
	req, k, err := Request(p)
	if err != nil {
		return nil, err
	}
	resp, err := sign(req)
	if err != nil {
		return nil, err
	}
	return k.identity(p, resp)
}

func newKeys() (*keys, error) {
	key, keyPEM, err := ca.NewKey()
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	return &keys{ssh: signer, tls: key, tlsPEM: keyPEM}, nil
}

func (k *keys) identity(p JoinParams, r *rpc.JoinResponse) (*Identity, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(r.SSHCert)
	if err != nil {
		return nil, fmt.Errorf("read host certificate: %w", err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, errors.New("the auth answered with a key, not a certificate")
	}
	signer, err := ssh.NewCertSigner(cert, k.ssh)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(r.TLSCert, k.tlsPEM)
	if err != nil {
		return nil, fmt.Errorf("read host certificate: %w", err)
	}
	return &Identity{
		HostUUID: p.HostUUID, NodeName: p.NodeName, Cluster: r.Cluster, Role: p.Role, SSH: signer, TLS: pair,
		hostTLS: r.Authorities.HostTLS, keyPEM: k.tlsPEM, certPEM: r.TLSCert,
	}, nil
}

// checkPins compares the authorities that the auth shows with the pins.
func checkPins(pins []string) func([][]byte, [][]*x509.Certificate) error {
	if len(pins) == 0 {
		return nil
	}
	return func(raw [][]byte, _ [][]*x509.Certificate) error {
		for _, der := range raw {
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				return err
			}
			for _, pin := range pins {
				if ca.Pin(cert) == pin {
					return nil
				}
			}
		}
		return errors.New("cluster pin does not match: none of the auth's certificate authorities has a configured ca_pin")
	}
}

// Save writes the identity to path, for the owner alone: the key, the SSH
// certificate, the TLS certificate and the host authority, as in an identity file.
func (i *Identity) Save(path string) error {
	b := append([]byte{}, i.keyPEM...)
	if i.SSH != nil {
		b = append(b, ssh.MarshalAuthorizedKey(i.SSH.PublicKey())...)
	}
	b = append(append(b, i.certPEM...), i.hostTLS...)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	return os.Rename(tmp, path)
}

// Load reads what Save wrote.
func Load(path string) (*Identity, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var blocks [][]byte
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, pem.EncodeToMemory(block))
	}
	if len(blocks) != 3 {
		return nil, fmt.Errorf("%s: want a key and two certificates, found %d PEM blocks", path, len(blocks))
	}
	pair, err := tls.X509KeyPair(blocks[1], blocks[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	uuid, cluster, _ := strings.Cut(pair.Leaf.Subject.CommonName, ".")
	i := &Identity{
		HostUUID: uuid, Cluster: cluster, Role: types.SystemRole(pair.Leaf.Subject.Organization[0]), TLS: pair,
		hostTLS: blocks[2], keyPEM: blocks[0], certPEM: blocks[1],
	}
	return i, i.loadSSH(b)
}

func (i *Identity) loadSSH(file []byte) error {
	plain, err := ssh.ParsePrivateKey(i.keyPEM)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(file)) {
		if !strings.Contains(line, "-cert-v01@openssh.com ") {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return err
		}
		cert, ok := key.(*ssh.Certificate)
		if !ok || len(cert.ValidPrincipals) == 0 {
			return errors.New("saved identity has no SSH certificate")
		}
		i.SSH, err = ssh.NewCertSigner(cert, plain)
		i.NodeName = nodeName(cert, i)
		return err
	}
	return errors.New("saved identity has no SSH certificate")
}

// nodeName finds the host's name among its principals (see ca.HostPrincipals).
func nodeName(cert *ssh.Certificate, i *Identity) string {
	for _, p := range cert.ValidPrincipals[1:] {
		if name, ok := strings.CutSuffix(p, "."+i.Cluster); ok {
			return name
		}
	}
	return i.HostUUID
}

// Covers says whether the identity's certificate has all these principals.
func (i *Identity) Covers(principals []string) bool {
	cert, ok := i.SSH.PublicKey().(*ssh.Certificate)
	if !ok {
		return false
	}
	for _, p := range principals {
		if !slices.Contains(cert.ValidPrincipals, p) {
			return false
		}
	}
	return true
}
