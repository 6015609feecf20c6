package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// serviceAccount is where a pod finds its credentials.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// apiServer is the Kubernetes API server behind the service.
type apiServer struct {
	url       *url.URL
	transport *http.Transport
	tokenFile string // read again for every request, as it is renewed
	token     string
}

// findAPIServer uses a kubeconfig if one is configured, and the pod's service account otherwise.
func findAPIServer(kubeconfig string) (*apiServer, error) {
	if kubeconfig != "" {
		return fromKubeconfig(kubeconfig)
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("kubernetes_service: no kubeconfig_file is configured and this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	ca, err := os.ReadFile(serviceAccount + "ca.crt")
	if err != nil {
		return nil, fmt.Errorf("kubernetes_service: service account: %w", err)
	}
	a := &apiServer{url: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, tokenFile: serviceAccount + "token"}
	return a, a.connect(ca, nil, false)
}

// kubeconfig is the part of such a file that is used.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			Server     string `yaml:"server"`
			CA         string `yaml:"certificate-authority"`
			CAData     string `yaml:"certificate-authority-data"`
			SkipVerify bool   `yaml:"insecure-skip-tls-verify"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User struct {
			Token     string `yaml:"token"`
			TokenFile string `yaml:"tokenFile"`
			Cert      string `yaml:"client-certificate"`
			CertData  string `yaml:"client-certificate-data"`
			Key       string `yaml:"client-key"`
			KeyData   string `yaml:"client-key-data"`
		} `yaml:"user"`
	} `yaml:"users"`
}

func fromKubeconfig(file string) (*apiServer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("kubernetes_service: %w", err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return nil, fmt.Errorf("kubernetes_service: %s: %w", file, err)
	}
	a, err := k.apiServer()
	if err != nil {
		return nil, fmt.Errorf("kubernetes_service: %s: %w", file, err)
	}
	return a, nil
}

// apiServer is the one that the file's current context names.
func (k *kubeconfig) apiServer() (*apiServer, error) {
	cluster, user := "", ""
	for _, c := range k.Contexts {
		if c.Name == k.CurrentContext {
			cluster, user = c.Context.Cluster, c.Context.User
		}
	}
	a := &apiServer{}
	certs, err := k.credentials(a, user)
	if err != nil {
		return nil, err
	}
	for _, c := range k.Clusters {
		if c.Name != cluster {
			continue
		}
		if a.url, err = url.Parse(c.Cluster.Server); err != nil {
			return nil, err
		}
		ca, err := fileOrData(c.Cluster.CA, c.Cluster.CAData)
		if err != nil {
			return nil, err
		}
		return a, a.connect(ca, certs, c.Cluster.SkipVerify)
	}
	return nil, fmt.Errorf("context %q names no cluster of the file", k.CurrentContext)
}

// credentials takes over a user's token and gives his client certificates.
func (k *kubeconfig) credentials(a *apiServer, user string) ([]tls.Certificate, error) {
	for _, u := range k.Users {
		if u.Name != user {
			continue
		}
		a.token, a.tokenFile = u.User.Token, u.User.TokenFile
		cert, err := fileOrData(u.User.Cert, u.User.CertData)
		if err != nil || len(cert) == 0 {
			return nil, err
		}
		key, err := fileOrData(u.User.Key, u.User.KeyData)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate of user %q: %w", user, err)
		}
		return []tls.Certificate{pair}, nil
	}
	return nil, nil
}

func fileOrData(file, data string) ([]byte, error) {
	if data != "" {
		return base64.StdEncoding.DecodeString(data)
	}
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

// connect prepares the transport. Upgrades need HTTP/1.1, so that is all it speaks.
func (a *apiServer) connect(ca []byte, certs []tls.Certificate, skip bool) error {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certs, InsecureSkipVerify: skip, NextProtos: []string{"http/1.1"}}
	if len(ca) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return errors.New("no certificate in the API server's authority")
		}
	}
	a.transport = &http.Transport{TLSClientConfig: cfg, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
	return nil
}

// authorize adds the service's own credentials.
func (a *apiServer) authorize(h http.Header) error {
	h.Del("Authorization")
	token := a.token
	if a.tokenFile != "" {
		raw, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return fmt.Errorf("service account token: %w", err)
		}
		token = strings.TrimSpace(string(raw))
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return nil
}
