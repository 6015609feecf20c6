package ssh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/history"
)

// dial gives a TCP connection. A name that cannot be resolved is a phase of its own.
func (o *opening) dial(ctx context.Context, address string) error {
	err := o.step(ctx, history.PhaseConnect, func() {}, func(ctx context.Context) error {
		conn, err := o.client.opts.Dial(ctx, "tcp", address)
		if err == nil {
			o.conn.raw = &socket{Conn: conn}
		}
		return err
	})
	var dns *net.DNSError
	if errors.As(err, &dns) {
		o.phase = history.PhaseResolve
		o.phases[len(o.phases)-1].Phase = history.PhaseResolve
	}
	return err
}

// proxy gives an authenticated SSH connection to the proxy.
func (o *opening) proxy(ctx context.Context, p Proxy) error {
	if err := o.dial(ctx, p.Address); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(p.Address)
	if err != nil {
		return err
	}
	if p.Name != "" {
		host = p.Name
	}
	if !p.Separate {
		if err := o.tls(ctx, host); err != nil {
			return err
		}
	}
	return o.step(ctx, history.PhaseSSHProxy, o.abort, func(context.Context) (err error) {
		conf := o.client.config(Target{}) // the login is the node's business
		if o.client.opts.KeepNames {
			conf.HostKeyCallback = o.keepNames
		}
		// The proxy wants any name that the certificate has.
		o.conn.proxy, o.conn.proxyChans, o.conn.proxyReqs, err = ssh.NewClientConn(o.conn.raw, net.JoinHostPort(host, "0"), conf)
		return err
	})
}

// keepNames checks the host's certificate, and keeps whom it is for.
func (o *opening) keepNames(addr string, remote net.Addr, key ssh.PublicKey) error {
	err := o.client.host(addr, remote, key)
	if cert, ok := key.(*ssh.Certificate); ok && err == nil {
		o.conn.proxyNames = cert.ValidPrincipals
	}
	return err
}

func (o *opening) tls(ctx context.Context, host string) error {
	return o.step(ctx, history.PhaseTLS, o.abort, func(ctx context.Context) error {
		conf := o.client.tlsConf.Clone()
		conf.ServerName = host
		secure := tls.Client(o.conn.raw, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		// What was agreed upon says nothing: real proxies route by what the client offers and confirm nothing.
		o.conn.raw = secure
		return nil
	})
}

// route asks the proxy for a channel to the node.
func (o *opening) route(ctx context.Context) error {
	return o.step(ctx, history.PhaseRoute, o.abort, func(context.Context) error {
		c := o.conn
		via, reqs, err := c.proxy.OpenChannel("session", nil)
		if err != nil {
			return openRefusal("session channel", err)
		}
		c.via, c.viaReqs = via, reqs
		if o.client.keyring != nil {
			if _, err := via.SendRequest("auth-agent-req@openssh.com", true, nil); err != nil {
				return err
			}
			c.agents = true
			go serveAgents(o.client.keyring, c.proxyChans) // the proxy asks for it while it opens the route
		}
		subsystem := "proxy:" + o.target.Node + ":0@" + o.target.Cluster
		ok, err := via.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{subsystem}))
		if err != nil {
			return err
		}
		if !ok {
			return &refusal{"route to " + o.target.Node, lastWords(via, refusalWait)}
		}
		return nil
	})
}

// node gives an authenticated SSH connection to the node over transport.
func (o *opening) node(ctx context.Context, transport net.Conn, addr string) error {
	return o.step(ctx, history.PhaseSSHNode, o.abort, func(context.Context) (err error) {
		c := o.conn
		c.node, c.nodeChans, c.nodeReqs, err = ssh.NewClientConn(transport, addr, o.client.config(o.target))
		if err != nil && c.via != nil {
			if words := lastWords(c.via, shortWait); words != "" {
				return errors.Join(&refusal{"node " + o.target.Node, words}, err)
			}
		}
		return err
	})
}

func (o *opening) abort() { o.conn.raw.Close() }

func (c *Client) config(t Target) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		Config:          c.sshConf,
		User:            t.login(c.opts.Identity),
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(c.opts.Identity.Signer())},
		HostKeyCallback: c.host,
		ClientVersion:   "SSH-2.0-Go",
	}
}

// refusalWait is how long a refusal's words may take. They were sent before it, but on a machine that is busy whoever
// reads them may be late, and a refusal without its words explains nothing.
const refusalWait = 2 * time.Second

// shortWait is for those that may have nothing to say.
const shortWait = 200 * time.Millisecond

// lastWords gives what the server wrote to the channel's error stream before it refused; "" if it says nothing for
// the wait and does not end the stream either.
func lastWords(ch ssh.Channel, wait time.Duration) string {
	text := make(chan string, 1)
	go func() {
		b := make([]byte, 4096)
		n, _ := io.ReadAtLeast(ch.Stderr(), b, 1)
		text <- strings.Join(strings.Fields(string(b[:n])), " ")
	}()
	select {
	case s := <-text:
		return s
	case <-time.After(wait):
		return ""
	}
}

// openRefusal keeps the server's words when it would not open a channel.
func openRefusal(what string, err error) error {
	var no *ssh.OpenChannelError
	if errors.As(err, &no) {
		return &refusal{what, no.Message}
	}
	return err
}

// channelConn is an SSH channel as a net.Conn. It has no deadlines: who must end it closes the connection below.
type channelConn struct {
	ssh.Channel
	below net.Conn
}

func (c *channelConn) LocalAddr() net.Addr              { return c.below.LocalAddr() }
func (c *channelConn) RemoteAddr() net.Addr             { return c.below.RemoteAddr() }
func (c *channelConn) SetDeadline(time.Time) error      { return nil }
func (c *channelConn) SetReadDeadline(time.Time) error  { return nil }
func (c *channelConn) SetWriteDeadline(time.Time) error { return nil }
