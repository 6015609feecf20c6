// Package kube is Kubernetes access: the forwarder in the proxy, which knows users by their TLS certificates, and the Kubernetes service, which passes requests on to the API server in the user's name and records terminals.
//
// Both use net/http and httputil only; streams (exec, attach, port-forward) are upgraded connections whose bytes are passed on as they are. What is recorded is read on the way past.
package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/sshutil"
)

// Headers by which a proxy tells the Kubernetes service whose request this is. They are believed of proxies only.
const (
	headerIdentity   = "Teleport-Impersonated-Identity"
	headerClientAddr = "Teleport-Client-Addr"
)

// user is whose request it is.
type user struct {
	Name    string              `json:"name"`
	Roles   []string            `json:"roles"`
	Traits  map[string][]string `json:"traits,omitempty"`
	Cluster string              `json:"kube_cluster,omitempty"` // Kubernetes cluster the certificate is for
	Expires time.Time           `json:"expires"`
}

func (u user) encode() (string, error) {
	raw, err := json.Marshal(u)
	return base64.StdEncoding.EncodeToString(raw), err
}

func decodeUser(header string) (user, error) {
	var u user
	raw, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return u, fmt.Errorf("decode identity: %w", err)
	}
	return u, json.Unmarshal(raw, &u)
}

// userOf reads a user's certificate.
func userOf(cert *x509.Certificate) (user, error) {
	u, err := ca.UserFromTLS(cert)
	if err != nil {
		return user{}, fmt.Errorf("read user certificate: %w", err)
	}
	return user{Name: u.Name, Roles: u.Roles, Traits: u.Traits, Cluster: u.KubeCluster, Expires: u.Expires}, nil
}

// peer is who is at the other end of a verified TLS connection.
type peer struct {
	cert *x509.Certificate
	host bool // signed by the host authority
}

// verify checks a client's certificate against the user or the host authority.
func verify(state *tls.ConnectionState, users, hosts *x509.CertPool) (peer, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return peer{}, fmt.Errorf("client certificate is required")
	}
	cert := state.PeerCertificates[0]
	opts := x509.VerifyOptions{Roots: users, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := cert.Verify(opts); err == nil {
		return peer{cert: cert}, nil
	}
	opts.Roots = hosts
	_, err := cert.Verify(opts)
	return peer{cert: cert, host: err == nil}, err
}

// serverTLS asks clients for a certificate, which the handlers verify: an unknown one gets an answer that says so.
func serverTLS(env process.Env) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{env.Auth.Identity().TLS}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
	}
}

// shakeHands finishes the TLS handshake in good time, before an HTTP server gets the connection.
func shakeHands(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sshutil.HandshakeTimeout)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	if err != nil {
		conn.Close()
	}
	return err
}

type peerKey struct{}

// withPeer keeps the TLS state of a connection that is wrapped, where net/http does not see it.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if handed, ok := conn.(*sshutil.HandedConn); ok {
		if t, ok := handed.Conn.(*tls.Conn); ok {
			state := t.ConnectionState()
			return context.WithValue(ctx, peerKey{}, &state)
		}
	}
	return ctx
}

func peerState(ctx context.Context) *tls.ConnectionState {
	state, _ := ctx.Value(peerKey{}).(*tls.ConnectionState)
	return state
}

// fail answers with a Status object, as the API server and the real program do.
func fail(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": err.Error(), "reason": http.StatusText(code), "code": code,
	})
}

// clustersOf names the Kubernetes clusters a service is for.
func clustersOf(s types.Server) []string {
	var names []string
	for _, c := range s.GetKubernetesClusters() {
		names = append(names, c.Name)
	}
	return names
}
