package boot

import (
	"fmt"
	"os"
	"path/filepath"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/pki"
)

// credentials are the authorities that certificates of later nodes need too,
// and the administrator's way in.
type credentials struct {
	ca    *pki.Authority
	admin pki.Pair
}

const apiURL = "https://" + apiAddress + ":6443"

// Users of the components, as Kubernetes' own bootstrap roles name them.
var componentUsers = []struct {
	file, user string
	groups     []string
}{
	{"controller-manager", "system:kube-controller-manager", nil},
	{"scheduler", "system:kube-scheduler", nil},
	{"proxy", "system:kube-proxy", nil},
	{"dns", "system:coredns", nil},
	{"cloud", "system:cloud", nil},
}

// makeCredentials writes every certificate and kubeconfig of the control plane.
func makeCredentials() (*credentials, error) {
	for _, d := range []string{pkiDir(), filepath.Dir(kubeconfigPath("x"))} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	ca, err := pki.NewAuthority("kubernetes")
	if err != nil {
		return nil, err
	}
	if err := ca.Write(pkiDir(), "ca"); err != nil {
		return nil, err
	}
	if err := writeAPIServerPairs(ca); err != nil {
		return nil, err
	}
	for _, u := range componentUsers {
		if err := writeKubeconfig(ca, u.file, u.user, u.groups...); err != nil {
			return nil, err
		}
	}
	admin, err := ca.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	c := &credentials{ca: ca, admin: admin}
	data, err := pki.Kubeconfig("admin", apiURL, ca, admin)
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(kubeconfigPath("admin"), data, 0o600)
}

func writeAPIServerPairs(ca *pki.Authority) error {
	front, err := pki.NewAuthority("front-proxy")
	if err != nil {
		return err
	}
	serviceAccounts, err := pki.NewAuthority("service-accounts") // only its key is used
	if err != nil {
		return err
	}
	server, err := ca.Server("kube-apiserver", apiAddress, apiServiceIP, "127.0.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc."+clusterDomain)
	if err != nil {
		return err
	}
	kubelet, err := ca.Client("kube-apiserver-kubelet-client")
	if err != nil {
		return err
	}
	aggregator, err := front.Client("front-proxy-client")
	if err != nil {
		return err
	}
	for name, pair := range map[string]pki.Pair{
		"front-proxy-ca": front.Pair, "service-accounts": serviceAccounts.Pair,
		"apiserver": server, "apiserver-kubelet-client": kubelet, "front-proxy-client": aggregator,
	} {
		if err := pair.Write(pkiDir(), name); err != nil {
			return err
		}
	}
	return nil
}

func writeKubeconfig(ca *pki.Authority, file, user string, groups ...string) error {
	client, err := ca.Client(user, groups...)
	if err != nil {
		return err
	}
	data, err := pki.Kubeconfig(file, apiURL, ca, client)
	if err != nil {
		return err
	}
	return os.WriteFile(kubeconfigPath(file), data, 0o600)
}

// forNode writes what one kubelet needs: its client identity, which the Node
// authorizer ties to its own objects, and its serving certificate.
func (c *credentials) forNode(name, address string) error {
	if err := writeKubeconfig(c.ca, name, "system:node:"+name, "system:nodes"); err != nil {
		return fmt.Errorf("credentials of %s: %w", name, err)
	}
	server, err := c.ca.Server(name, name, address)
	if err != nil {
		return err
	}
	return server.Write(pkiDir(), name)
}

// outside is the administrator's kubeconfig for use outside the cluster.
func (c *credentials) outside(cluster string, port int) ([]byte, error) {
	return pki.Kubeconfig("shakedown-"+cluster, fmt.Sprintf("https://127.0.0.1:%d", port), c.ca, c.admin)
}
