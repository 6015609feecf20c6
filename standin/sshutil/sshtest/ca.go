// Package sshtest makes certificates as a Teleport auth would, for tests.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// CA is one certificate authority.
type CA struct {
	t   testing.TB
	key ssh.Signer
	tls tlsCA
}

// NewCA makes an authority with a fresh key.
func NewCA(t testing.TB) *CA { return &CA{t: t, key: newKey(t)} }

// Keys are the authority's public keys.
func (c *CA) Keys() []ssh.PublicKey { return []ssh.PublicKey{c.key.PublicKey()} }

// Host issues a host certificate. role is Node, Kube or Proxy.
func (c *CA) Host(uuid, cluster, role string, more ...string) ssh.Signer {
	return c.issue(&ssh.Certificate{
		CertType:        ssh.HostCert,
		ValidPrincipals: append([]string{uuid + "." + cluster, uuid, "localhost", "127.0.0.1"}, more...),
		Permissions:     ssh.Permissions{Extensions: map[string]string{"x-teleport-role": role, "x-teleport-authority": cluster}},
	})
}

// User issues a user certificate with every permission, for a fresh key.
func (c *CA) User(user string, logins []string, roles ...string) ssh.Signer {
	return c.issue(c.userCert(user, logins, roles))
}

// Certify issues a user certificate with every permission for a key.
func (c *CA) Certify(user string, key ssh.PublicKey, logins []string, roles ...string) *ssh.Certificate {
	cert := c.userCert(user, logins, roles)
	cert.Key = key
	cert.ValidBefore = ssh.CertTimeInfinity
	if err := cert.SignCert(rand.Reader, c.key); err != nil {
		c.t.Fatal(err)
	}
	return cert
}

func (c *CA) userCert(user string, logins, roles []string) *ssh.Certificate {
	raw, err := json.Marshal(map[string]any{"version": "v1", "roles": roles})
	if err != nil {
		c.t.Fatal(err)
	}
	return &ssh.Certificate{
		CertType: ssh.UserCert, KeyId: user, ValidPrincipals: logins,
		Permissions: ssh.Permissions{Extensions: map[string]string{
			"teleport-roles": string(raw), "permit-pty": "", "permit-port-forwarding": "", "permit-agent-forwarding": "",
		}},
	}
}

func (c *CA) issue(cert *ssh.Certificate) ssh.Signer {
	c.t.Helper()
	key := newKey(c.t)
	cert.Key = key.PublicKey()
	cert.ValidAfter = uint64(time.Now().Add(-time.Minute).Unix())
	cert.ValidBefore = uint64(time.Now().Add(time.Hour).Unix())
	if err := cert.SignCert(rand.Reader, c.key); err != nil {
		c.t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		c.t.Fatal(err)
	}
	return signer
}

// sign certifies a host key for these principals alone.
func (c *CA) sign(key ssh.PublicKey, principals []string) (*ssh.Certificate, error) {
	cert := &ssh.Certificate{Key: key, CertType: ssh.HostCert, ValidPrincipals: principals, ValidBefore: uint64(time.Now().Add(time.Hour).Unix())}
	return cert, cert.SignCert(rand.Reader, c.key)
}

func newKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}
