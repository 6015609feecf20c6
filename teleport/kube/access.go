// Package kube goes to a Kubernetes cluster through a Teleport proxy: exec sessions that are held, watches, plain
// requests, port-forwards. It uses client-go; exec over WebSocket is its own, because client-go's can neither be
// given a dialer nor tells how far it got.
package kube

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"shakedown.dev/shakedown/teleport/identity"
)

// ServerName is the name by which a proxy's web port knows traffic for Kubernetes (TLS routing). The proxy's
// certificate is for *.teleport.cluster.local, so it is valid whatever address is dialled.
const ServerName = "kube-teleport-proxy-alpn.teleport.cluster.local"

// separateName is what the certificate of the Kubernetes port (3026, proxyListenerMode separate) is good for.
const separateName = "teleport.cluster.local"

// DialFunc opens a connection, as net.Dialer.DialContext and clusters.Cluster.DialContext do.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Options say how to reach the cluster.
type Options struct {
	Dial     DialFunc           // nil: a net.Dialer
	Identity *identity.Identity // signed for the Kubernetes cluster
	Address  string             // host:port of the proxy's web port, or of its Kubernetes port with Separate
	Separate bool
}

// Client is a way to the cluster. It is safe for use by many goroutines.
type Client struct {
	opts   Options
	config *rest.Config
	kube   kubernetes.Interface
}

// New makes a Client. Nothing is dialled yet.
func New(opts Options) (*Client, error) {
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	cert, key, roots := opts.Identity.TLSPEM()
	c := &Client{opts: opts, config: &rest.Config{
		Host:            "https://" + opts.Address,
		TLSClientConfig: rest.TLSClientConfig{ServerName: opts.serverName(), CertData: cert, KeyData: key, CAData: roots},
		Dial:            opts.Dial,
		QPS:             -1, // the caller paces
		UserAgent:       "shakedown",
	}}
	var err error
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return nil, fmt.Errorf("kubernetes through %s: %w", opts.Address, err)
	}
	return c, nil
}

func (o Options) serverName() string {
	if o.Separate {
		return separateName
	}
	return ServerName
}

// Config is for plain requests and watches with client-go. Its streams (exec, port-forward) would ignore the
// dialer: use Exec and PortForward.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubernetes is client-go's client over Config.
func (c *Client) Kubernetes() kubernetes.Interface { return c.kube }

// Kubeconfig is the same as a file, for kubectl. It holds a private key: mode 0600.
func (c *Client) Kubeconfig(cluster string) ([]byte, error) {
	conf := clientcmdapi.NewConfig()
	conf.Clusters[cluster] = &clientcmdapi.Cluster{Server: c.config.Host, TLSServerName: c.config.ServerName, CertificateAuthorityData: c.config.CAData}
	conf.AuthInfos[cluster] = &clientcmdapi.AuthInfo{ClientCertificateData: c.config.CertData, ClientKeyData: c.config.KeyData}
	conf.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: cluster}
	conf.CurrentContext = cluster
	return clientcmd.Write(*conf)
}
