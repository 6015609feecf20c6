package sshutil

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// Extensions Teleport puts into SSH certificates.
const (
	extRoles          = "teleport-roles"
	extTraits         = "teleport-traits"
	extRouteToCluster = "teleport-route-to-cluster"
	extHostRole       = "x-teleport-role"
	extHostAuthority  = "x-teleport-authority"

	PermitPTY             = "permit-pty"
	PermitPortForwarding  = "permit-port-forwarding"
	PermitAgentForwarding = "permit-agent-forwarding"
)

// Identity is what a user's certificate says.
type Identity struct {
	User           string   // Teleport user, the certificate's key id
	Logins         []string // the certificate's principals
	Roles          []string
	Traits         map[string][]string
	RouteToCluster string
	ValidBefore    time.Time // zero: no end
	Certificate    *ssh.Certificate
}

// Permits reports whether the certificate carries an extension such as PermitPTY.
func (i Identity) Permits(extension string) bool {
	_, ok := i.Certificate.Extensions[extension]
	return ok
}

// HostIdentity is what a host's certificate says.
type HostIdentity struct {
	UUID        string
	Role        string // Node, Kube, Proxy, Auth, …
	ClusterName string
	Principals  []string
}

// CheckUser verifies a user certificate against the user authorities for a login; "" skips the login, as the proxy does.
func CheckUser(key ssh.PublicKey, login string, authorities []ssh.PublicKey) (Identity, error) {
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return Identity{}, fmt.Errorf("unsupported key type: %s %s", key.Type(), ssh.FingerprintSHA256(key))
	}
	if len(cert.ValidPrincipals) == 0 {
		return Identity{}, errors.New("need a valid principal for key " + ssh.FingerprintSHA256(key))
	}
	if cert.KeyId == "" {
		return Identity{}, errors.New("need a valid key for key " + ssh.FingerprintSHA256(key))
	}
	if login == "" {
		login = cert.ValidPrincipals[0]
	}
	if err := checkCert(cert, ssh.UserCert, login, authorities); err != nil {
		return Identity{}, err
	}
	return identityOf(cert)
}

func identityOf(cert *ssh.Certificate) (Identity, error) {
	id := Identity{User: cert.KeyId, Logins: cert.ValidPrincipals, Certificate: cert, RouteToCluster: cert.Extensions[extRouteToCluster]}
	if cert.ValidBefore != ssh.CertTimeInfinity && cert.ValidBefore != 0 {
		id.ValidBefore = time.Unix(int64(cert.ValidBefore), 0)
	}
	if raw := cert.Extensions[extRoles]; raw != "" {
		var roles struct {
			Roles []string `json:"roles"`
		}
		if err := json.Unmarshal([]byte(raw), &roles); err != nil {
			return Identity{}, fmt.Errorf("certificate extension %s: %w", extRoles, err)
		}
		id.Roles = roles.Roles
	}
	if raw := cert.Extensions[extTraits]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &id.Traits); err != nil {
			return Identity{}, fmt.Errorf("certificate extension %s: %w", extTraits, err)
		}
	}
	return id, nil
}

// CheckHost verifies a host certificate against the host authorities.
func CheckHost(key ssh.PublicKey, authorities []ssh.PublicKey) (HostIdentity, error) {
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return HostIdentity{}, errors.New("server doesn't support provided key type")
	}
	if len(cert.ValidPrincipals) == 0 {
		return HostIdentity{}, errors.New("host certificate without principals")
	}
	if err := checkCert(cert, ssh.HostCert, cert.ValidPrincipals[0], authorities); err != nil {
		return HostIdentity{}, err
	}
	return HostIdentity{
		UUID:        hostUUID(cert),
		Role:        cert.Extensions[extHostRole],
		ClusterName: cert.Extensions[extHostAuthority],
		Principals:  cert.ValidPrincipals,
	}, nil
}

// hostUUID is the first principal, "<uuid>.<cluster>", up to its first dot.
func hostUUID(cert *ssh.Certificate) string {
	uuid, _, _ := bytes.Cut([]byte(cert.ValidPrincipals[0]), []byte("."))
	return string(uuid)
}

func checkCert(cert *ssh.Certificate, kind uint32, principal string, authorities []ssh.PublicKey) error {
	if cert.CertType != kind {
		return fmt.Errorf("ssh: certificate has type %d, want %d", cert.CertType, kind)
	}
	if !Trusted(cert.SignatureKey, authorities) {
		return errors.New("ssh: certificate signed by unrecognized authority")
	}
	checker := ssh.CertChecker{}
	return checker.CheckCert(principal, cert)
}

// Trusted reports whether a key is among the authorities.
func Trusted(key ssh.PublicKey, authorities []ssh.PublicKey) bool {
	raw := key.Marshal()
	for _, a := range authorities {
		if bytes.Equal(raw, a.Marshal()) {
			return true
		}
	}
	return false
}

// Slim keeps of a certificate what a session needs, as thousands are held at a time: names, validity and permissions.
func Slim(cert *ssh.Certificate) *ssh.Certificate {
	return &ssh.Certificate{KeyId: cert.KeyId, ValidPrincipals: cert.ValidPrincipals, ValidBefore: cert.ValidBefore, Permissions: cert.Permissions}
}
