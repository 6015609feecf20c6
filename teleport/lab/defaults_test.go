package lab

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/teleport/helm"
)

func values(t *testing.T, text string) helm.Values {
	t.Helper()
	v := helm.Values{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFill(t *testing.T) {
	lab := Facts{Release: "teleport", Namespace: "lab"}
	tests := []struct {
		because string
		facts   Facts
		author  string
		added   string // paths, in order
	}{
		{"an empty lab gets everything", lab, "{}", "clusterName proxyListenerMode tls.existingSecretName insecureSkipProxyTLSVerify service.type persistence.enabled"},
		{"what the author says wins", lab, "clusterName: x\nproxyListenerMode: separate\ntls: {existingSecretName: mine}\nservice: {type: NodePort}\npersistence: {enabled: true}", ""},
		{"a single proxy needs no certificate to share", lab, "proxy: {highAvailability: {replicaCount: 1}}", "clusterName proxyListenerMode insecureSkipProxyTLSVerify service.type persistence.enabled auth.highAvailability.replicaCount"},
		{"a cluster with storage and load balancers needs neither", Facts{Release: "r", Namespace: "n", StorageClass: "standard", LoadBalancer: true}, "{}", "clusterName proxyListenerMode tls.existingSecretName insecureSkipProxyTLSVerify"},
		{"several auths of the stand-in share an etcd", Facts{Release: "r", Namespace: "n", StorageClass: "s", LoadBalancer: true, Standin: true}, "auth: {highAvailability: {replicaCount: 2}}", "clusterName proxyListenerMode tls.existingSecretName insecureSkipProxyTLSVerify persistence.enabled etcd.enabled"},
		{"agents get their token", Facts{Release: "r", Namespace: "n", StorageClass: "s", LoadBalancer: true, AgentToken: "secret"}, "clusterName: x\ntls: {existingSecretName: a}\nproxyListenerMode: multiplex", "auth.teleportConfig.auth_service.tokens"},
	}
	tests = append(tests, tests[len(tests)-1])
	tests[len(tests)-1].because, tests[len(tests)-1].author = "beside the author's own tokens", tests[len(tests)-1].author+"\nauth: {teleportConfig: {auth_service: {tokens: ['proxy:x']}}}"
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			filled, added := Fill(tt.facts, values(t, tt.author))
			var paths []string
			for _, d := range added {
				paths = append(paths, d.Path)
				if d.Reason == "" || strings.Contains(cmpText(d.Value), "secret") && strings.HasSuffix(d.Path, "tokens") {
					t.Errorf("%+v: no reason, or the token is shown", d)
				}
				if _, ok := helm.Get(filled, strings.Split(d.Path, ".")...); !ok {
					t.Errorf("%s was said to be added and is not there", d.Path)
				}
			}
			if diff := cmp.Diff(tt.added, strings.Join(paths, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func cmpText(v any) string {
	text, _ := yaml.Marshal(v)
	return string(text)
}

// TestFilledRenders proves that the stand-in's chart takes what is filled in.
func TestFilledRenders(t *testing.T) {
	f := Facts{Release: "teleport", Namespace: "lab", Standin: true, AgentToken: "x"}
	filled, _ := Fill(f, values(t, "auth: {highAvailability: {replicaCount: 2}}\nproxy: {highAvailability: {replicaCount: 3}}"))
	c, err := helm.Ref{Chart: helm.Standin}.Load(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm.Render(c, f.Release, f.Namespace, "", filled); err != nil {
		t.Error(err)
	}
}

func TestSelfSigned(t *testing.T) {
	s, err := SelfSigned("a", "b", "run", "teleport.lab.svc.cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(leaf.SubjectKeyId) == 0 || !bytes.Equal(leaf.SubjectKeyId, leaf.AuthorityKeyId) {
		t.Error("Teleport would not believe that it is self-signed")
	}
	for _, host := range []string{"teleport.lab.svc.cluster.local", "kube-teleport-proxy-alpn.teleport.lab.svc.cluster.local"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}
