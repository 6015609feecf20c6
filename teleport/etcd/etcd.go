// Package etcd brings shared storage for several auths of a real Teleport: one etcd with TLS, and the chart values
// that let the auths use it. It is for trials: its data ends with its pod.
//
// etcd holds a Teleport's state but not its audit log or recordings: each auth keeps its own on disk (audit.Group
// reads them together), and what lies on an emptyDir is lost with its pod. The stand-in's chart has an etcd of its own.
package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/teleport/helm"
)

// Etcd is what is to be brought.
type Etcd struct {
	Name      string // of all its objects; empty: etcd
	Namespace string
	Image     string // empty: the one that the embedded cluster has built in
	Run       string // label of the run
	// ProxyToken lets the proxies join. The chart's own token is good until the year 3000, which is more than
	// etcd's longest lease (9 000 000 000 s): an auth that is to store it ends with "too large lease TTL".
	ProxyToken string
}

// builtin is the image of kubelite that runs etcd with etcd's own flags.
const builtin = "shakedown.dev/etcd:builtin"

// secretFolder is where auths find their certificate.
const secretFolder = "/etc/teleport-etcd"

func (e Etcd) name() string {
	if e.Name == "" {
		return "etcd"
	}
	return e.Name
}

func (e Etcd) host() string { return e.name() + "." + e.Namespace + ".svc.cluster.local" }

// Values let the auths of the teleport-cluster chart use it. Persistence is off: one claim would tie all auths to
// one node, where their files would get into each other's way.
func (e Etcd) Values() helm.Values {
	file := func(name string) string { return secretFolder + "/" + name }
	storage := helm.Values{
		"type": "etcd", "peers": []any{"https://" + e.host() + ":2379"}, "prefix": "/teleport",
		"tls_cert_file": file(corev1.TLSCertKey), "tls_key_file": file(corev1.TLSPrivateKeyKey), "tls_ca_file": file("ca.crt"),
	}
	join := helm.Values{"method": "token", "token_name": e.ProxyToken}
	return helm.Values{
		"persistence":      helm.Values{"enabled": false},
		"createProxyToken": false,
		"proxy":            helm.Values{"teleportConfig": helm.Values{"teleport": helm.Values{"join_params": join}}},
		"auth": helm.Values{
			"teleportConfig": helm.Values{
				"teleport":     helm.Values{"storage": storage},
				"auth_service": helm.Values{"tokens": []any{"proxy:" + e.ProxyToken}},
			},
			"extraVolumes":      []any{helm.Values{"name": "etcd-tls", "secret": helm.Values{"secretName": e.name() + "-client"}}},
			"extraVolumeMounts": []any{helm.Values{"name": "etcd-tls", "mountPath": secretFolder, "readOnly": true}},
		},
	}
}

// Ensure creates what is not there yet and waits until etcd is ready, at most until ctx ends.
func (e Etcd) Ensure(ctx context.Context, client kubernetes.Interface) error {
	if err := e.secrets(ctx, client); err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(e.Namespace).Create(ctx, e.service(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("service of etcd: %w", err)
	}
	sets := client.AppsV1().StatefulSets(e.Namespace)
	if _, err := sets.Create(ctx, e.statefulSet(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("etcd: %w", err)
	}
	for {
		set, err := sets.Get(ctx, e.name(), metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("etcd in %s is not ready: %w", e.Namespace, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Remove deletes all of it. What is not there is no error.
func (e Etcd) Remove(ctx context.Context, client kubernetes.Interface) error {
	none := metav1.DeleteOptions{}
	for _, err := range []error{
		client.AppsV1().StatefulSets(e.Namespace).Delete(ctx, e.name(), none),
		client.CoreV1().Services(e.Namespace).Delete(ctx, e.name(), none),
		client.CoreV1().Secrets(e.Namespace).Delete(ctx, e.name()+"-server", none),
		client.CoreV1().Secrets(e.Namespace).Delete(ctx, e.name()+"-client", none),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove etcd: %w", err)
		}
	}
	return nil
}

func (e Etcd) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: e.Namespace, Labels: map[string]string{"app.kubernetes.io/name": e.name(), "app.kubernetes.io/component": "etcd", helm.RunLabel: e.Run}}
}

func (e Etcd) selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": e.name(), "app.kubernetes.io/component": "etcd"}
}

func (e Etcd) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: e.meta(e.name()), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: e.selector(), Ports: []corev1.ServicePort{{Name: "client", Port: 2379}},
	}}
}

func (e Etcd) statefulSet() *appsv1.StatefulSet {
	image := e.Image
	if image == "" {
		image = builtin
	}
	one, grace := int32(1), int64(5)
	return &appsv1.StatefulSet{ObjectMeta: e.meta(e.name()), Spec: appsv1.StatefulSetSpec{
		Replicas: &one, ServiceName: e.name(), Selector: &metav1.LabelSelector{MatchLabels: e.selector()},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: e.meta("").Labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "etcd", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				// As environment, which etcd's image and the built-in one both take.
				Env: []corev1.EnvVar{
					{Name: "ETCD_NAME", Value: "etcd"}, {Name: "ETCD_DATA_DIR", Value: "/var/lib/etcd"},
					{Name: "ETCD_LISTEN_CLIENT_URLS", Value: "https://0.0.0.0:2379"},
					{Name: "ETCD_ADVERTISE_CLIENT_URLS", Value: "https://" + e.host() + ":2379"},
					{Name: "ETCD_CERT_FILE", Value: "/tls/tls.crt"}, {Name: "ETCD_KEY_FILE", Value: "/tls/tls.key"},
					{Name: "ETCD_TRUSTED_CA_FILE", Value: "/tls/ca.crt"}, {Name: "ETCD_CLIENT_CERT_AUTH", Value: "true"},
				},
				Ports:          []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("client")}}, PeriodSeconds: 1, FailureThreshold: 30},
				VolumeMounts:   []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/etcd"}, {Name: "tls", MountPath: "/tls", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: e.name() + "-server"}}},
			},
		}},
	}}
}

// secrets makes certificates for server and clients, unless they are there.
func (e Etcd) secrets(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.CoreV1().Secrets(e.Namespace).Get(ctx, e.name()+"-client", metav1.GetOptions{}); err == nil {
		return nil
	}
	ca, caKey, caPEM, err := authority()
	if err != nil {
		return err
	}
	for _, side := range []string{"server", "client"} {
		cert, key, err := leaf(ca, caKey, side, e.host(), "*."+e.host(), "localhost")
		if err != nil {
			return err
		}
		s := &corev1.Secret{ObjectMeta: e.meta(e.name() + "-" + side), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
			corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, "ca.crt": caPEM,
		}}
		if _, err := client.CoreV1().Secrets(e.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("secret %s: %w", s.Name, err)
		}
	}
	return nil
}

func authority() (*x509.Certificate, *ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	template := certificate("etcd of a lab")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, nil, err
	}
	ca, err := x509.ParseCertificate(der)
	return ca, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func leaf(ca *x509.Certificate, caKey *ecdsa.PrivateKey, name string, hosts ...string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certificate(name)
	template.DNSNames = hosts
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, k.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), err
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
}
