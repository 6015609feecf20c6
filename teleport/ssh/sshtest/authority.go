// Package sshtest is a Teleport proxy and its nodes inside a test, as far as an SSH client sees them: TLS routing,
// certificates at both hops, the proxy subsystem, shells that echo. It can be told to misbehave.
package sshtest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/teleport/identity"
)

// Authority signs users and hosts of one cluster.
type Authority struct {
	Cluster string

	ssh     ssh.Signer
	tlsKey  *ecdsa.PrivateKey
	tlsCert *x509.Certificate
}

// NewAuthority makes one with fresh keys.
func NewAuthority(cluster string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cluster}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{Cluster: cluster, ssh: signer, tlsKey: key, tlsCert: cert}, err
}

// Identity signs a user, until expires, and gives the identity file and what is in it.
func (a *Authority) Identity(user string, expires time.Time, logins ...string) (*identity.Identity, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	cert, err := a.certificate(key, ssh.UserCert, user, expires, logins)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := a.leaf(user, key.Public(), expires)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	var file bytes.Buffer
	file.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	file.Write(ssh.MarshalAuthorizedKey(cert))
	file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}))
	fmt.Fprintf(&file, "@cert-authority %s,*.%s %s", a.Cluster, a.Cluster, ssh.MarshalAuthorizedKey(a.ssh.PublicKey()))
	file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.tlsCert.Raw}))
	id, err := identity.Parse(file.Bytes())
	return id, file.Bytes(), err
}

// Host signs a host for the names.
func (a *Authority) Host(names ...string) (ssh.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := a.certificate(key, ssh.HostCert, names[0], time.Now().Add(time.Hour), names)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	return ssh.NewCertSigner(cert, signer)
}

func (a *Authority) certificate(key *ecdsa.PrivateKey, kind uint32, id string, expires time.Time, names []string) (*ssh.Certificate, error) {
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	cert := &ssh.Certificate{Key: public, CertType: kind, KeyId: id, ValidPrincipals: names, ValidBefore: uint64(expires.Unix())}
	if kind == ssh.UserCert {
		cert.Extensions = map[string]string{"permit-pty": "", "teleport-route-to-cluster": a.Cluster}
	}
	return cert, cert.SignCert(rand.Reader, a.ssh)
}

func (a *Authority) leaf(name string, key crypto.PublicKey, expires time.Time, hosts ...string) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: expires,
	}, a.tlsCert, key, a.tlsKey)
}

// TLS is a server of the cluster that wants its clients to show a certificate of a user: an auth, or a proxy's port
// for Kubernetes.
func (a *Authority) TLS(hosts ...string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := a.leaf(hosts[0], key.Public(), time.Now().Add(time.Hour), hosts...)
	if err != nil {
		return nil, err
	}
	users := x509.NewCertPool()
	users.AddCert(a.tlsCert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: users, MinVersion: tls.VersionTLS12,
	}, nil
}
