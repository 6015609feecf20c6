// Package ssh opens SSH sessions through a Teleport proxy with golang.org/x/crypto/ssh and nothing of Teleport.
// It is built to hold ten thousand of them: per session eight goroutines and two SSH transports (seven and
// one straight to a node), no timers, one shared configuration.
//
// The way in (FACTS-teleport.md, section 5.2): TCP, then TLS with ALPN teleport-proxy-ssh (or plain TCP to the
// SSH port), SSH to the proxy, subsystem proxy:UUID:0@CLUSTER, and through that channel SSH to the node. Host
// certificates are checked at both hops against the identity's authorities.
package ssh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/identity"
)

// DialFunc opens a connection, as net.Dialer.DialContext and clusters.Cluster.DialContext do.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// alpnProxySSH is the protocol name by which the web port hands a connection to the proxy's SSH server.
const alpnProxySSH = "teleport-proxy-ssh"

// Options are what all sessions of a Client share.
type Options struct {
	Dial     DialFunc           // nil: a net.Dialer
	Identity *identity.Identity // never nil
	// WebCAs checks the certificate of the web port. Nil leaves it unchecked: it is commonly self-signed, and
	// the host is authenticated by its SSH certificate inside.
	WebCAs *x509.CertPool
	// ForwardAgent offers an agent with the identity's key to the proxy, which modes proxy and proxy-sync need.
	ForwardAgent bool
	// KeepNames keeps the names in the proxy's host certificate for Conn.ProxyNames.
	KeepNames bool
	Timeout   time.Duration    // of each phase of opening; zero: 30 s
	Now       func() time.Time // nil: time.Now
}

// Client opens sessions for one identity. It is safe for use by many goroutines and costs nothing to make.
type Client struct {
	opts    Options
	host    ssh.HostKeyCallback
	sshConf ssh.Config
	tlsConf *tls.Config
	keyring agent.Agent
}

// New makes a Client.
func New(opts Options) (*Client, error) {
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Client{
		opts: opts,
		host: opts.Identity.HostKeyCallback(),
		// Cheapest first, and few: each connection keeps its own copy of the lists. Teleport 13 to 18 offer the first of each.
		sshConf: ssh.Config{
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES256CTR},
			KeyExchanges: []string{"curve25519-sha256@libssh.org", ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256},
		},
		tlsConf: &tls.Config{
			NextProtos:         []string{alpnProxySSH},
			RootCAs:            opts.WebCAs,
			InsecureSkipVerify: opts.WebCAs == nil, //nolint:gosec // SSH checks the host inside
			MinVersion:         tls.VersionTLS12,
			// Without ML-KEM, Go's first choice: a twelfth of what opening costs, and SSH agrees on keys of its own inside.
			CurvePreferences:       []tls.CurveID{tls.X25519, tls.CurveP256},
			SessionTicketsDisabled: true,
		},
	}
	if opts.ForwardAgent {
		c.keyring = agent.NewKeyring()
		if err := c.keyring.Add(opts.Identity.AgentKey()); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	return c, nil
}

// Proxy is where and how to reach a proxy.
type Proxy struct {
	Address string // host:port to dial: the Service's, or a pod's
	// Name is the host that the proxy's certificate must be for, if it is not Address's host. A pod's IP is no
	// principal of a proxy: use "localhost" when dialling a pod.
	Name string
	// Separate dials the SSH port (3023) in plain TCP instead of the web port in TLS.
	Separate bool
}

// Target is the node and the login at it.
type Target struct {
	Node    string // UUID (preferred: it is unambiguous) or host name
	Cluster string // empty: the identity's
	Login   string // empty: the identity's first
}

func (t Target) login(id *identity.Identity) string {
	if t.Login == "" && len(id.Logins) > 0 {
		return id.Logins[0]
	}
	return t.Login
}

// Connect opens a connection to the node through the proxy. Every error is an *OpenError.
func (c *Client) Connect(ctx context.Context, p Proxy, t Target) (*Conn, error) {
	if t.Cluster == "" {
		t.Cluster = c.opts.Identity.Cluster
	}
	o := &opening{client: c, target: t, conn: &Conn{client: c, target: t, done: make(chan struct{})}}
	if err := o.proxy(ctx, p); err != nil {
		return nil, o.failed(err)
	}
	if err := o.route(ctx); err != nil {
		return nil, o.failed(err)
	}
	if err := o.node(ctx, &channelConn{o.conn.via, o.conn.raw}, net.JoinHostPort(t.Node, "0")); err != nil {
		return nil, o.failed(err)
	}
	o.conn.phases = o.phases
	go o.conn.pump()
	return o.conn, nil
}

// ConnectDirect opens a connection straight to a node's SSH port, beside any proxy: the control arm. The node's
// certificate must be for name. Every error is an *OpenError.
func (c *Client) ConnectDirect(ctx context.Context, address, name string, t Target) (*Conn, error) {
	o := &opening{client: c, target: t, conn: &Conn{client: c, target: t, done: make(chan struct{})}}
	if err := o.dial(ctx, address); err != nil {
		return nil, o.failed(err)
	}
	if err := o.node(ctx, o.conn.raw, net.JoinHostPort(name, "0")); err != nil {
		return nil, o.failed(err)
	}
	o.conn.phases = o.phases
	go o.conn.pump()
	return o.conn, nil
}

// Handshake connects straight to a node's SSH port, exchanges keys, checks that the node's certificate is for name, and
// hangs up before it says who it is: what the node does until then it does alone. Every error is an *OpenError.
func (c *Client) Handshake(ctx context.Context, address, name string) error {
	o := &opening{client: c, conn: &Conn{client: c, done: make(chan struct{})}}
	if err := o.dial(ctx, address); err != nil {
		return o.failed(err)
	}
	defer o.conn.raw.Close()
	err := o.step(ctx, history.PhaseSSHNode, o.abort, func(context.Context) error {
		seen := false
		conf := c.config(Target{})
		conf.HostKeyCallback = func(addr string, remote net.Addr, key ssh.PublicKey) error {
			if err := c.host(addr, remote, key); err != nil {
				return err
			}
			seen = true
			return errEnough
		}
		_, _, _, err := ssh.NewClientConn(o.conn.raw, net.JoinHostPort(name, "0"), conf)
		if seen {
			return nil
		}
		return err
	})
	if err != nil {
		return o.failed(err)
	}
	return nil
}

// errEnough ends a connection whose certificate was looked at.
var errEnough = errors.New("the host's certificate is all that was asked for")

// opening is one connection on its way to being open.
type opening struct {
	client *Client
	target Target
	conn   *Conn
	phases []history.PhaseTime
	phase  history.Phase
}

// step runs one phase under the client's time limit. When the limit or ctx ends, abort must make f return.
func (o *opening) step(ctx context.Context, phase history.Phase, abort func(), f func(context.Context) error) error {
	o.phase = phase
	ctx, cancel := context.WithTimeout(ctx, o.client.opts.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, abort)
	start := o.client.opts.Now()
	err := f(ctx)
	o.phases = append(o.phases, history.PhaseTime{Phase: phase, Took: o.client.opts.Now().Sub(start)})
	if !stop() && err == nil {
		err = ctx.Err() // aborted in the last moment: what f returned is dead
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// failed turns the error of the current phase into an *OpenError and leaves nothing open.
func (o *opening) failed(err error) error {
	if o.conn.raw != nil {
		o.conn.raw.Close()
	}
	e := &OpenError{Phase: o.phase, Phases: o.phases, Err: err}
	var refusal *refusal
	if errors.As(err, &refusal) {
		e.Reason = refusal.reason
	}
	if e.Cut = cutOf(err); refusal != nil && e.Reason != "" {
		e.Cut = reasonCut(e.Reason)
	}
	if e.Phase == history.PhaseConnect && e.Cut == history.CutProtocol {
		e.Cut = history.CutConnect
	}
	e.Hint = o.client.hint(e, o.target)
	return e
}

// refusal is a "no" to a request, with the server's words if it had any.
type refusal struct{ what, reason string }

func (r *refusal) Error() string {
	if r.reason == "" {
		return r.what + " refused without a reason"
	}
	return r.what + " refused: " + r.reason
}
