package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig renders a kubeconfig with everything inline: context, cluster and
// user are all called name.
func Kubeconfig(name, server string, ca *Authority, client Pair) ([]byte, error) {
	key, err := client.KeyPEM()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	cfg := api.NewConfig()
	cfg.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: ca.CertPEM()}
	cfg.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: client.CertPEM(), ClientKeyData: key}
	cfg.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	return clientcmd.Write(*cfg)
}
