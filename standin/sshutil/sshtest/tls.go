package sshtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"time"
)

// tlsCA is the TLS half of an authority, made when first wanted.
type tlsCA struct {
	once sync.Once
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func (c *CA) tlsInit() {
	c.tls.once.Do(func() {
		c.t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			c.t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: Cluster}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			c.t.Fatal(err)
		}
		c.tls.key = key
		if c.tls.cert, err = x509.ParseCertificate(der); err != nil {
			c.t.Fatal(err)
		}
	})
}

// Pool holds the authority's TLS certificate.
func (c *CA) Pool() *x509.CertPool {
	c.tlsInit()
	pool := x509.NewCertPool()
	pool.AddCert(c.tls.cert)
	return pool
}

// TLS issues a TLS certificate good for clients and servers.
func (c *CA) TLS(subject pkix.Name, names ...string) tls.Certificate {
	c.tlsInit()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, DNSNames: append(names, "localhost"), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.tls.cert, key.Public(), c.tls.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// PEM is the authority's TLS certificate.
func (c *CA) PEM() []byte {
	c.tlsInit()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.tls.cert.Raw})
}
