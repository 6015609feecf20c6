package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Extensions of an SSH host certificate.
const (
	ExtensionRole      = "x-teleport-role"
	ExtensionAuthority = "x-teleport-authority"
)

// HostRequest asks for a host's certificates. Public keys may be of any kind.
type HostRequest struct {
	UUID, NodeName, Role string
	Principals           []string // beyond those that every host gets
	Expires              time.Time
}

// HostPrincipals are the names that a host is known by.
func (a *Authority) HostPrincipals(r HostRequest) []string {
	names := []string{r.UUID + "." + a.Cluster, r.UUID}
	if r.NodeName != "" && r.NodeName != r.UUID {
		names = append(names, r.NodeName+"."+a.Cluster, r.NodeName)
	}
	names = append(names, "localhost", "127.0.0.1", "::1")
	for _, p := range r.Principals {
		if p != "" && !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}

// SignHostSSH signs a host key.
func (a *Authority) SignHostSSH(key ssh.PublicKey, r HostRequest) (*ssh.Certificate, error) {
	return a.signHost(key, a.HostPrincipals(r), r.Role, r.Expires)
}

// SignHostNames signs a host key for exactly these principals.
func (a *Authority) SignHostNames(key ssh.PublicKey, role string, principals []string) (*ssh.Certificate, error) {
	return a.signHost(key, principals, role, time.Time{})
}

func (a *Authority) signHost(key ssh.PublicKey, principals []string, role string, expires time.Time) (*ssh.Certificate, error) {
	cert := &ssh.Certificate{
		Key: key, CertType: ssh.HostCert, ValidPrincipals: principals,
		ValidAfter: uint64(time.Now().Add(-time.Minute).Unix()), ValidBefore: sshTime(expires),
		Permissions: ssh.Permissions{Extensions: map[string]string{ExtensionRole: role, ExtensionAuthority: a.Cluster}},
	}
	if err := cert.SignCert(rand.Reader, a.SSH); err != nil {
		return nil, fmt.Errorf("sign host key: %w", err)
	}
	return cert, nil
}

// SignHostTLS signs a host's TLS key, good for client and server.
func (a *Authority) SignHostTLS(key crypto.PublicKey, r HostRequest) ([]byte, error) {
	subject := pkix.Name{CommonName: r.UUID + "." + a.Cluster, Organization: []string{r.Role}}
	names := append(a.HostPrincipals(r), EncodeClusterName(a.Cluster), "*.teleport.cluster.local", "teleport.cluster.local")
	return a.signTLS(key, subject, names, r.Expires)
}

// signTLS returns the certificate as PEM. expires zero: ten years.
func (a *Authority) signTLS(key crypto.PublicKey, subject pkix.Name, names []string, expires time.Time) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	if expires.IsZero() {
		expires = time.Now().Add(Lifetime)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: expires,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		// BasicConstraints says that this is no authority.
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.TLSCert, key, a.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("sign TLS certificate of %s: %w", subject.CommonName, err)
	}
	return certPEM(der), nil
}

func sshTime(t time.Time) uint64 {
	if t.IsZero() {
		return ssh.CertTimeInfinity
	}
	return uint64(t.Unix())
}
