package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/teleport/helm"
)

// SelfSigned makes a TLS secret for the hosts, each with its subdomains, good for a month.
func SelfSigned(name, namespace, run string, hosts ...string) (*corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "shakedown lab"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	// Teleport believes a certificate self-signed only if it names its own key as its authority's; others it
	// wants to verify against the system's roots, and does not start.
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(public)
	template.SubjectKeyId, template.AuthorityKeyId = id[:20], id[:20]
	for _, host := range hosts {
		template.DNSNames = append(template.DNSNames, host, "*."+host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{helm.RunLabel: run}},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		},
	}, nil
}

// EnsureSecret creates the secret, and its namespace, unless they are there. One that is there is left as it is.
func EnsureSecret(ctx context.Context, client kubernetes.Interface, s *corev1.Secret) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{helm.RunLabel: s.Labels[helm.RunLabel]}}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", s.Namespace, err)
	}
	if _, err := client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// NewToken makes a join token that cannot be guessed.
func NewToken() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

// Look asks a cluster for the facts that the defaults depend on. Only a default StorageClass counts: the chart names
// none. loadBalancer cannot be asked; the caller knows it of its provider.
func Look(ctx context.Context, client kubernetes.Interface, release, namespace string, loadBalancer bool) (Facts, error) {
	f := Facts{Release: release, Namespace: namespace, LoadBalancer: loadBalancer}
	classes, err := client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("storage classes: %w", err)
	}
	for _, c := range classes.Items {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			f.StorageClass = c.Name
		}
	}
	return f, nil
}
