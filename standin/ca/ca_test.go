package ca

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/ssh"
)

func authority(t *testing.T, kind string) *Authority {
	t.Helper()
	a, err := NewAuthority(kind, "c.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func someone() User {
	return User{
		Name: "alice", Roles: []string{"access", "load"}, Traits: map[string][]string{"logins": {"root"}, "x": nil}, Logins: []string{"root", "me"},
		KubeGroups: []string{"g1", "g2"}, KubeUsers: []string{"u"}, KubeCluster: "k", RouteToCluster: "c.example.com", Cluster: "c.example.com",
		ForwardAgent: true, PortForwarding: true, Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
	}
}

func TestTLSCertificateSaysWhoTheUserIs(t *testing.T) {
	a, u := authority(t, "user"), someone()
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := a.SignUserTLS(key.Public(), u)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := UserFromTLS(cert)
	if err != nil {
		t.Fatal(err)
	}
	want := u
	want.ForwardAgent, want.PortForwarding = false, false // these are in the SSH certificate alone
	want.Logins = append(want.Logins, JoinPrincipal)
	// A subject keeps several values of one name as a set, without an order.
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Error(diff)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.TLSCert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

func TestSSHCertificateSaysWhoTheUserIs(t *testing.T) {
	a, u := authority(t, "user"), someone()
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.SignUserSSH(pub, u)
	if err != nil {
		t.Fatal(err)
	}
	got, err := UserFromSSH(cert)
	if err != nil {
		t.Fatal(err)
	}
	want := User{Name: u.Name, Roles: u.Roles, Traits: u.Traits, Logins: u.Logins, RouteToCluster: u.RouteToCluster, ForwardAgent: true, PortForwarding: true, Expires: u.Expires}
	got.Expires = got.Expires.UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := cert.Permissions.Extensions[ExtensionRoles]; got != `{"roles":["access","load"],"version":"v1"}` {
		t.Errorf("roles extension is %s", got)
	}
}

func TestHostCertificateIsGoodForBothEnds(t *testing.T) {
	a := authority(t, "host")
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := a.SignHostTLS(key.Public(), HostRequest{UUID: "id", NodeName: "n", Role: "Proxy", Principals: []string{"p.example.com", "10.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.TLSCert)
	for _, name := range []string{"id.c.example.com", "p.example.com", "10.0.0.1", "localhost", EncodeClusterName("c.example.com"), "kube.teleport.cluster.local"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if cert.Subject.CommonName != "id.c.example.com" || cert.Subject.Organization[0] != "Proxy" {
		t.Errorf("subject is %s", cert.Subject)
	}
}

func TestAuthorityIsTheSameAfterItWasStored(t *testing.T) {
	a := authority(t, "host")
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var again Authority
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	pin, err := PinPEM(a.CertPEM)
	if err != nil || again.Pin() != a.Pin() || pin != a.Pin() || again.Kind != "host" || again.Cluster != "c.example.com" {
		t.Errorf("got %+v, pin %s and %v", again, pin, err)
	}
	if string(again.SSH.PublicKey().Marshal()) != string(a.SSH.PublicKey().Marshal()) {
		t.Error("the SSH key is another")
	}
}

func TestEncodeClusterName(t *testing.T) {
	if got := EncodeClusterName("abc"); got != "616263.teleport.cluster.local" {
		t.Errorf("got %s", got)
	}
}
