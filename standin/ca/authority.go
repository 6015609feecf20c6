// Package ca makes the cluster's keys: the user and the host authority, and the
// SSH and TLS certificates that they sign, with the names and extensions of the
// real program.
package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"golang.org/x/crypto/ssh"
)

// Lifetime is how long an authority's own certificate is good for (10 years).
const Lifetime = 87600 * time.Hour

// Authority signs SSH and TLS certificates of one kind ("user" or "host").
type Authority struct {
	Kind    string
	Cluster string
	SSH     ssh.Signer
	TLSKey  crypto.Signer
	TLSCert *x509.Certificate
	// CertPEM and KeyPEM are as stored.
	CertPEM []byte
	keyPEM  []byte
}

// NewAuthority makes an authority with a new key (ECDSA P-256).
func NewAuthority(kind, cluster string) (*Authority, error) {
	key, keyPEM, err := newAuthorityKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	name := pkix.Name{CommonName: cluster, Organization: []string{cluster}, SerialNumber: serial.String()}
	template := &x509.Certificate{
		SerialNumber: serial, Issuer: name, Subject: name,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(Lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create %s authority: %w", kind, err)
	}
	return load(kind, cluster, certPEM(der), keyPEM)
}

func load(kind, cluster string, cert, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load %s authority: %w", kind, err)
	}
	signer, err := ssh.NewSignerFromKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("load %s authority: %w", kind, err)
	}
	return &Authority{
		Kind: kind, Cluster: cluster, SSH: signer, CertPEM: cert, keyPEM: key,
		TLSKey: pair.PrivateKey.(crypto.Signer), TLSCert: pair.Leaf,
	}, nil
}

type stored struct {
	Kind, Cluster string
	Cert, Key     string
}

// MarshalJSON includes the private key: what it gives is for the store alone.
func (a *Authority) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{a.Kind, a.Cluster, string(a.CertPEM), string(a.keyPEM)})
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (a *Authority) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	loaded, err := load(s.Kind, s.Cluster, []byte(s.Cert), []byte(s.Key))
	if err != nil {
		return err
	}
	*a = *loaded
	return nil
}

// Pin is the authority's CA pin: sha256 over its public key.
func (a *Authority) Pin() string { return Pin(a.TLSCert) }

// Pin is the pin of one CA certificate.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// NewKey makes an Ed25519 key; the PEM is PKCS#8. The client of the imitated API
// reads an SSH certificate from an identity file only if its type begins with
// "ssh", so ECDSA will not do; RSA would cost each handshake a millisecond.
func NewKey() (crypto.Signer, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return encodeKey(key)
}

// NewRSAKey makes a 2048-bit RSA key, as 13.0.0-dev does; the PEM is PKCS#1.
func NewRSAKey() (crypto.Signer, []byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

func newAuthorityKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return encodeKey(key)
}

func encodeKey(key crypto.Signer) (crypto.Signer, []byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// EncodeClusterName is the server name by which an auth is addressed in TLS.
func EncodeClusterName(cluster string) string {
	return hex.EncodeToString([]byte(cluster)) + ".teleport.cluster.local"
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PinPEM is the pin of the first certificate in a PEM file.
func PinPEM(b []byte) (string, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return "", fmt.Errorf("no certificate to make a pin of")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return Pin(cert), nil
}
