// Package identity holds the credentials of one Teleport user, as `tctl auth sign --format=file` writes them:
// a private key, certificates for SSH and TLS, and the authorities that vouch for the cluster's hosts.
package identity

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Identity is one user's credentials. It is never changed after it was made, and holds a private key: not for logs.
type Identity struct {
	User    string    // name of the Teleport user
	Cluster string    // cluster whose hosts it trusts
	Logins  []string  // names it may log in with on nodes
	Expires time.Time // when the first of its certificates ends

	signer  ssh.Signer
	key     crypto.PrivateKey
	sshCert *ssh.Certificate
	hostCAs []ssh.PublicKey
	tls     tls.Certificate
	roots   *x509.CertPool
	file    []byte
	rootPEM []byte
}

// Load reads an identity file.
func Load(path string) (*Identity, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	id, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("identity file %s: %w", path, err)
	}
	return id, nil
}

// Save writes the identity file with mode 0600; the folder gets 0700 if it has to be made.
func (i *Identity) Save(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, i.file, 0o600)
}

// Signer signs with the key, under the user's SSH certificate.
func (i *Identity) Signer() ssh.Signer { return i.signer }

// AgentKey is what an SSH agent needs to act for the user, where the proxy records (modes proxy and proxy-sync).
func (i *Identity) AgentKey() agent.AddedKey {
	return agent.AddedKey{PrivateKey: i.key, Certificate: i.sshCert, Comment: "teleport:" + i.User}
}

// Expired tells whether a certificate has ended, or ends within slack.
func (i *Identity) Expired(now time.Time, slack time.Duration) bool {
	return now.Add(slack).After(i.Expires)
}

// Allows tells whether the certificate names the login.
func (i *Identity) Allows(login string) bool {
	return slices.Contains(i.Logins, login)
}

// Dear tells whether signing with the key costs milliseconds: RSA does, ECDSA and Ed25519 do not.
func (i *Identity) Dear() bool {
	_, is := i.key.(*rsa.PrivateKey)
	return is
}

// ServerName is the name an auth server of the cluster shows in TLS: the hex form of the cluster's name
// under teleport.cluster.local (FACTS: Teleport's EncodeClusterName).
func ServerName(cluster string) string {
	return hex.EncodeToString([]byte(cluster)) + ".teleport.cluster.local"
}

// AuthTLS is the mutual TLS that the auth's gRPC API wants.
func (i *Identity) AuthTLS() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{i.tls},
		RootCAs:      i.roots,
		ServerName:   ServerName(i.Cluster),
		NextProtos:   []string{"h2"},
		MinVersion:   tls.VersionTLS12,
	}
}

// TLSPEM gives certificate, key and authorities as PEM, for a kubeconfig.
func (i *Identity) TLSPEM() (cert, key, roots []byte) {
	for _, der := range i.tls.Certificate {
		cert = append(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	block, _ := pem.Decode(i.file)
	return cert, pem.EncodeToMemory(block), i.rootPEM
}

// HostError says why a host's key was not believed.
type HostError struct {
	Host   string
	Reason string
}

func (e *HostError) Error() string { return fmt.Sprintf("host %s: %s", e.Host, e.Reason) }

// HostKeyCallback accepts hosts that show a certificate of the cluster's host authority for the name dialled.
// Every refusal is a *HostError.
func (i *Identity) HostKeyCallback() ssh.HostKeyCallback {
	checker := ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool {
		for _, ca := range i.hostCAs {
			if equal(key, ca) {
				return true
			}
		}
		return false
	}}
	return i.hostCheck(checker)
}

// With is the identity with another key, and the certificates for it: SSH in the form of authorized_keys, TLS as PEM.
func (i *Identity) With(key crypto.PrivateKey, sshCert, tlsCert []byte) (*Identity, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	file := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	file = append(append(file, bytes.TrimSpace(sshCert)...), '\n')
	file = append(append(file, bytes.TrimSpace(tlsCert)...), '\n')
	for line := range bytes.Lines(i.file) {
		if bytes.HasPrefix(line, []byte("@cert-authority")) {
			file = append(file, line...)
		}
	}
	return Parse(append(file, i.rootPEM...))
}
