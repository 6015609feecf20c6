// Package pki makes the certificates of one cluster: an authority for the
// cluster, one for aggregated API servers, and what each component presents.
// They live as long as the cluster and are never written outside its private
// file system. Keys are ECDSA P-256 because twenty of them must not cost a
// visible part of the start-up time.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is that of every certificate: longer than any cluster is kept.
const lifetime = 365 * 24 * time.Hour

// Pair is a certificate with its private key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// Authority signs certificates.
type Authority struct{ Pair }

// NewAuthority makes a self-signed certificate authority called name.
func NewAuthority(name string) (*Authority, error) {
	tmpl := template(pkix.Name{CommonName: name})
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	p, err := sign(tmpl, nil)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	return &Authority{p}, nil
}

// Client issues a client certificate. Kubernetes reads user as the user's name
// and groups as the user's groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	tmpl := template(pkix.Name{CommonName: user, Organization: groups})
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(tmpl)
}

// Server issues a serving certificate for hosts, which are DNS names or IP
// addresses. It may be used as a client certificate of the same name too.
func (a *Authority) Server(name string, hosts ...string) (Pair, error) {
	tmpl := template(pkix.Name{CommonName: name})
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return a.issue(tmpl)
}

func (a *Authority) issue(tmpl *x509.Certificate) (Pair, error) {
	p, err := sign(tmpl, a)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate for %s: %w", tmpl.Subject.CommonName, err)
	}
	return p, nil
}

func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func sign(tmpl *x509.Certificate, by *Authority) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, err
	}
	parent, signer := tmpl, crypto.Signer(key)
	if by != nil {
		parent, signer = by.Cert, by.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return Pair{Cert: cert, Key: key}, err
}

// CertPEM is the certificate in PEM form.
func (p Pair) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// KeyPEM is the private key in PEM form (PKCS #8).
func (p Pair) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Write puts the pair into dir as name.crt and name.key (mode 0600).
func (p Pair) Write(dir, name string) error {
	key, err := p.KeyPEM()
	if err != nil {
		return fmt.Errorf("key of %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".crt"), p.CertPEM(), 0o600)
}

// NewAuthorityFrom is an authority that was made elsewhere. The key must be
// able to sign.
func NewAuthorityFrom(cert *x509.Certificate, key any) (*Authority, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("authority %s: a key of type %T cannot sign", cert.Subject.CommonName, key)
	}
	return &Authority{Pair{Cert: cert, Key: signer}}, nil
}
