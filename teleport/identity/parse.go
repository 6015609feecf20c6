package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Parse reads the text of an identity file. Text that is none of its parts is skipped: tctl prints a line of
// its own when it writes to its standard output.
// The order of parts is that of Teleport's api/identityfile: key, SSH certificate, TLS certificate, authorities.
func Parse(data []byte) (*Identity, error) {
	i := &Identity{roots: x509.NewCertPool()}
	certs, err := i.blocks(data)
	if err != nil {
		return nil, err
	}
	if err := i.lines(data); err != nil {
		return nil, err
	}
	switch {
	case i.key == nil:
		return nil, errors.New("there is no private key in it")
	case i.sshCert == nil:
		return nil, errors.New("there is no SSH certificate in it: was it signed with --format=file?")
	case len(certs) < 2:
		return nil, errors.New("the TLS certificate or its authorities are missing")
	case len(i.hostCAs) == 0:
		return nil, errors.New("there is no @cert-authority line in it, so no host could be believed")
	}
	return i, i.finish(certs)
}

// blocks takes the PEM parts: one key, then certificates, the first of which is the user's.
func (i *Identity) blocks(data []byte) ([]*pem.Block, error) {
	var certs []*pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "CERTIFICATE":
			certs = append(certs, block)
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && i.key == nil:
			key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(block))
			if err != nil {
				return nil, fmt.Errorf("private key: %w", err)
			}
			i.key = key
			i.file = append(i.file, pem.EncodeToMemory(block)...)
		}
	}
	return certs, nil
}

// lines takes what stands on a line of its own: the user's SSH certificate and the host authorities.
func (i *Identity) lines(data []byte) error {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		switch first, _, _ := bytes.Cut(line, []byte(" ")); {
		case string(first) == "@cert-authority":
			_, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
			if err != nil {
				return fmt.Errorf("@cert-authority: %w", err)
			}
			i.hostCAs = append(i.hostCAs, key)
			if i.Cluster == "" && len(hosts) > 0 {
				i.Cluster = strings.TrimPrefix(hosts[0], "*.")
			}
		case bytes.HasSuffix(first, []byte("-cert-v01@openssh.com")) && i.sshCert == nil:
			key, _, _, _, err := ssh.ParseAuthorizedKey(line)
			if err != nil {
				return fmt.Errorf("SSH certificate: %w", err)
			}
			i.sshCert, _ = key.(*ssh.Certificate)
		default:
			continue
		}
		i.file = append(append(i.file, line...), '\n')
	}
	return nil
}

func (i *Identity) finish(certs []*pem.Block) error {
	plain, err := ssh.NewSignerFromKey(i.key)
	if err != nil {
		return fmt.Errorf("private key: %w", err)
	}
	if i.signer, err = ssh.NewCertSigner(i.sshCert, plain); err != nil {
		return fmt.Errorf("key and SSH certificate: %w", err)
	}
	i.tls = tls.Certificate{Certificate: [][]byte{certs[0].Bytes}, PrivateKey: i.key}
	if i.tls.Leaf, err = x509.ParseCertificate(certs[0].Bytes); err != nil {
		return fmt.Errorf("TLS certificate: %w", err)
	}
	for _, block := range certs[1:] {
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("TLS authority: %w", err)
		}
		i.roots.AddCert(ca)
		i.rootPEM = append(i.rootPEM, pem.EncodeToMemory(block)...)
	}
	i.file = append(append(i.file, pem.EncodeToMemory(certs[0])...), i.rootPEM...)
	i.describe()
	return nil
}

// describe reads from the certificates what callers ask for.
func (i *Identity) describe() {
	i.User = i.sshCert.KeyId
	if route := i.sshCert.Extensions["teleport-route-to-cluster"]; route != "" {
		i.Cluster = route
	}
	for _, p := range i.sshCert.ValidPrincipals {
		// Names like -teleport-internal-join are no logins.
		if !strings.HasPrefix(p, "-teleport-") {
			i.Logins = append(i.Logins, p)
		}
	}
	i.Expires = i.tls.Leaf.NotAfter
	if before := i.sshCert.ValidBefore; before != ssh.CertTimeInfinity {
		if t := time.Unix(int64(before), 0); t.Before(i.Expires) {
			i.Expires = t
		}
	}
}

func (i *Identity) hostCheck(checker ssh.CertChecker) ssh.HostKeyCallback {
	var known knownHosts
	return func(addr string, remote net.Addr, key ssh.PublicKey) error {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		cert, ok := key.(*ssh.Certificate)
		if !ok {
			return &HostError{Host: host, Reason: "it shows a bare key, not a certificate of the cluster's host authority"}
		}
		if !checker.IsHostAuthority(cert.SignatureKey, addr) {
			return &HostError{Host: host, Reason: fmt.Sprintf("its certificate is signed by %s, which is not an authority of cluster %s", ssh.FingerprintSHA256(cert.SignatureKey), i.Cluster)}
		}
		if known.has(host, cert) {
			return nil
		}
		if err := checker.CheckHostKey(addr, remote, key); err != nil {
			reason := err.Error()
			if !slices.Contains(cert.ValidPrincipals, host) {
				reason = "its certificate is for " + strings.Join(cert.ValidPrincipals, ", ")
			}
			return &HostError{Host: host, Reason: reason}
		}
		known.add(host, cert)
		return nil
	}
}

// knownHosts are certificates whose signature was verified for a host. Thousands of connections meet the same few, and
// verifying is a tenth of what opening one costs. Whether a certificate is of its time is asked each time.
type knownHosts struct{ seen sync.Map }

// hostCert is a host with its certificate's fingerprint.
type hostCert struct {
	host string
	sum  [sha256.Size]byte
}

func keyOf(host string, cert *ssh.Certificate) hostCert {
	return hostCert{host, sha256.Sum256(cert.Marshal())}
}

func (k *knownHosts) has(host string, cert *ssh.Certificate) bool {
	now := uint64(time.Now().Unix())
	if now < cert.ValidAfter || now >= cert.ValidBefore {
		return false
	}
	_, ok := k.seen.Load(keyOf(host, cert))
	return ok
}

func (k *knownHosts) add(host string, cert *ssh.Certificate) { k.seen.Store(keyOf(host, cert), true) }

func equal(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
