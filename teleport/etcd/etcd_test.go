package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/teleport/helm"
)

func TestEnsure(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "statefulsets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{ReadyReplicas: 1}}, nil
	})
	e := Etcd{Namespace: "lab", Run: "r1"}
	for range 2 { // what is there is left as it is
		if err := e.Ensure(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *corev1.Secret {
		s, err := client.CoreV1().Secrets("lab").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	server, auth := get("etcd-server"), get("etcd-client")
	pair, err := tls.X509KeyPair(server.Data["tls.crt"], server.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(auth.Data["ca.crt"])
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "etcd.lab.svc.cluster.local"}); err != nil {
		t.Errorf("a client would not believe the server: %v", err)
	}
	if err := e.Remove(t.Context(), client); err != nil {
		t.Error(err)
	}
	if left, err := client.CoreV1().Secrets("lab").List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("secrets are left: %v, %v", left, err)
	}
}

// TestValues proves that what the values mount is what they name.
func TestValues(t *testing.T) {
	v := Etcd{Namespace: "lab", ProxyToken: "secret"}.Values()
	if tokens, _ := helm.Get(v, "auth", "teleportConfig", "auth_service", "tokens"); tokens.([]any)[0] != "proxy:secret" {
		t.Errorf("tokens are %v", tokens)
	}
	ca, ok := helm.Get(v, "auth", "teleportConfig", "teleport", "storage", "tls_ca_file")
	if !ok || ca != secretFolder+"/ca.crt" {
		t.Errorf("tls_ca_file is %v", ca)
	}
}
