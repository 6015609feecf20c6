package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestIssuedCertificatesVerifyAgainstTheirAuthorityOnly(t *testing.T) {
	ca, other := authority(t, "one"), authority(t, "two")
	server, err := ca.Server("api", "10.0.0.1", "kubernetes.default")
	if err != nil {
		t.Fatal(err)
	}
	verify := func(by *Authority, host string) error {
		roots := x509.NewCertPool()
		roots.AddCert(by.Cert)
		_, err := server.Cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		return err
	}
	if err := verify(ca, "10.0.0.1"); err != nil {
		t.Errorf("address in the certificate is refused: %v", err)
	}
	if err := verify(ca, "kubernetes.default"); err != nil {
		t.Errorf("name in the certificate is refused: %v", err)
	}
	if verify(ca, "10.0.0.2") == nil {
		t.Error("an address that the certificate does not name is accepted")
	}
	if verify(other, "10.0.0.1") == nil {
		t.Error("a certificate of another authority is accepted")
	}
}

func TestKeysAreWrittenForTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	pair, err := authority(t, "ca").Client("system:node:node1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(dir, "kubelet"); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(dir, "kubelet.key"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key mode is %v, want 0600 (%v)", st.Mode(), err)
	}
}

func TestKubeconfigIsReadByClientGo(t *testing.T) {
	ca := authority(t, "ca")
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	data, err := Kubeconfig("lab", "https://127.0.0.1:6443", ca, admin)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://127.0.0.1:6443" || len(cfg.CertData) == 0 || len(cfg.CAData) == 0 {
		t.Errorf("kubeconfig lost host, certificate or authority: %s", data)
	}
}

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	ca, err := NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}
