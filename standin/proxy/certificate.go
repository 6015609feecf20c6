package proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"shakedown.dev/shakedown/standin/process"
)

// webCertificate is the web port's TLS: the configured key pairs, else a self-signed certificate.
func webCertificate(env process.Env) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{alpnHTTP1}, SessionTicketsDisabled: true,
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384},
	}
	for _, pair := range env.Config.Proxy.KeyPairs {
		cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load web certificate %s: %w", pair.CertFile, err)
		}
		if err := checkChain(cert.Certificate); err != nil {
			return nil, fmt.Errorf("unable to verify HTTPS certificate chain in %s: %w", pair.CertFile, err)
		}
		cfg.Certificates = append(cfg.Certificates, cert)
	}
	if len(cfg.Certificates) > 0 {
		return cfg, nil
	}
	cert, err := selfSigned(append([]string{"localhost", env.Auth.Identity().NodeName}, env.Config.Proxy.PublicAddr...))
	if err != nil {
		return nil, fmt.Errorf("make web certificate: %w", err)
	}
	cfg.Certificates = []tls.Certificate{cert}
	return cfg, nil
}

// checkChain is the real program's rule: a certificate alone in its file whose authority key id is its own key id is taken for self-signed and let pass; any other chain must be good for this host's roots.
func checkChain(chain [][]byte) error {
	var certs []*x509.Certificate
	for _, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		certs = append(certs, cert)
	}
	if len(certs) == 1 && bytes.Equal(certs[0].SubjectKeyId, certs[0].AuthorityKeyId) {
		return nil
	}
	opts := x509.VerifyOptions{Intermediates: x509.NewCertPool()}
	for _, cert := range certs[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := certs[0].Verify(opts)
	return err
}

func selfSigned(names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost", Organization: []string{"Shakedown stand-in"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	template.IPAddresses = append(template.IPAddresses, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
