package ssh

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"shakedown.dev/shakedown/history"
)

// Conn is an authenticated connection to a node. Many sessions may run over one.
type Conn struct {
	client *Client
	target Target
	phases []history.PhaseTime

	raw        net.Conn
	proxy      ssh.Conn // nil when connected directly
	proxyChans <-chan ssh.NewChannel
	proxyReqs  <-chan *ssh.Request
	proxyNames []string    // in the proxy's host certificate, with Options.KeepNames
	via        ssh.Channel // the channel through the proxy
	viaReqs    <-chan *ssh.Request
	agents     bool // agent channels have a goroutine of their own

	node      ssh.Conn
	nodeChans <-chan ssh.NewChannel
	nodeReqs  <-chan *ssh.Request

	ours      atomic.Bool // we closed it
	done      chan struct{}
	sessionID atomic.Pointer[string]
}

// Hop is one of the two SSH connections.
type Hop string

// The hops of a connection.
const (
	HopProxy Hop = "proxy" // between us and the proxy
	HopNode  Hop = "node"  // through the proxy to the node
)

// Phases are the phases of opening with their times, in order.
func (c *Conn) Phases() []history.PhaseTime { return c.phases }

// ProxyNames are the names that the proxy's host certificate is for, with Options.KeepNames: its host UUID and host
// name among them. Behind a Service they tell which proxy it was.
func (c *Conn) ProxyNames() []string { return c.proxyNames }

// RemoteAddr is the address that was dialled: a proxy's, or with ConnectDirect a node's.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// LocalAddr is our end; behind a Service the proxy sees the same port unless addresses are translated.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// Done is closed when the connection to the node is over, whoever ended it.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection at once.
func (c *Conn) Close() error {
	c.ours.Store(true)
	return c.raw.Close()
}

// ErrSilent means that the other side did not answer a keep-alive in time.
var ErrSilent = errors.New("no answer to a keep-alive")

// Keepalive asks the hop for a sign of life and returns how long it took. If ctx ends first the error is
// ErrSilent, and the question stays pending until the connection ends. Any answer is a sign of life, also a no.
func (c *Conn) Keepalive(ctx context.Context, hop Hop) (time.Duration, error) {
	conn := c.node
	if hop == HopProxy && c.proxy != nil {
		conn = c.proxy
	}
	start := c.client.opts.Now()
	answer := make(chan error, 1)
	go func() {
		_, _, err := conn.SendRequest("keepalive@openssh.com", true, nil)
		answer <- err
	}()
	select {
	case err := <-answer:
		return c.client.opts.Now().Sub(start), err
	case <-ctx.Done():
		return 0, ErrSilent
	}
}

// RecordingProxy asks the proxy whether it records sessions itself (Teleport's cluster-details request).
func (c *Conn) RecordingProxy() (bool, error) {
	if c.proxy == nil {
		return false, nil
	}
	ok, payload, err := c.proxy.SendRequest("cluster-details@goteleport.com", true, nil)
	if err != nil || !ok {
		return false, err
	}
	var details struct{ RecordingProxy, FIPSEnabled bool }
	return details.RecordingProxy, ssh.Unmarshal(payload, &details)
}

// pump answers what the servers ask on their own, on both connections, until the node's is over. One
// goroutine for all of it: x/crypto's own Client starts five per connection.
func (c *Conn) pump() {
	defer close(c.done)
	nodeChans, nodeReqs := c.nodeChans, c.nodeReqs
	proxyChans, proxyReqs, viaReqs := c.proxyChans, c.proxyReqs, c.viaReqs
	if c.agents {
		proxyChans = nil // serveAgents has them
	}
	for nodeReqs != nil {
		select {
		case req, ok := <-nodeReqs:
			if nodeReqs = keep(nodeReqs, ok); ok {
				c.answer(req)
			}
		case req, ok := <-proxyReqs:
			if proxyReqs = keep(proxyReqs, ok); ok {
				c.answer(req)
			}
		case req, ok := <-viaReqs:
			if viaReqs = keep(viaReqs, ok); ok {
				c.answer(req)
			}
		case ch, ok := <-nodeChans:
			if nodeChans = keep(nodeChans, ok); ok {
				ch.Reject(ssh.UnknownChannelType, "this client opens channels, it takes none")
			}
		case ch, ok := <-proxyChans:
			if proxyChans = keep(proxyChans, ok); ok {
				ch.Reject(ssh.UnknownChannelType, "this client opens channels, it takes none")
			}
		}
	}
	if c.proxy != nil {
		// Read on, or a proxy that still talks would find nobody listening and its answers would pile up.
		go drain(proxyChans, proxyReqs, viaReqs)
	}
}

// keep is the channel, or nil once it is closed, so that a select passes it over.
func keep[T any](ch <-chan T, open bool) <-chan T {
	if !open {
		return nil
	}
	return ch
}

func drain(chans <-chan ssh.NewChannel, reqs, via <-chan *ssh.Request) {
	for reqs != nil || chans != nil || via != nil {
		select {
		case req, ok := <-reqs:
			if reqs = keep(reqs, ok); ok && req.WantReply {
				req.Reply(false, nil)
			}
		case req, ok := <-via:
			if via = keep(via, ok); ok && req.WantReply {
				req.Reply(false, nil)
			}
		case ch, ok := <-chans:
			if chans = keep(chans, ok); ok {
				ch.Reject(ssh.UnknownChannelType, "closing")
			}
		}
	}
}

// answer says no to everything; a keep-alive wants any answer. Newer Teleports tell the session's id this way.
func (c *Conn) answer(req *ssh.Request) {
	if req.Type == "current-session-id@goteleport.com" {
		id := string(req.Payload)
		c.sessionID.Store(&id)
	}
	if req.WantReply {
		req.Reply(false, nil)
	}
}

// serveAgents gives the proxy the agent it asks for, until the connection to the proxy ends.
func serveAgents(keyring agent.Agent, chans <-chan ssh.NewChannel) {
	for ch := range chans {
		if ch.ChannelType() != "auth-agent@openssh.com" {
			ch.Reject(ssh.UnknownChannelType, "only agents are forwarded")
			continue
		}
		channel, reqs, err := ch.Accept()
		if err != nil {
			continue
		}
		go ssh.DiscardRequests(reqs)
		go func() {
			defer channel.Close()
			_ = agent.ServeAgent(keyring, channel) // ends with the channel
		}()
	}
}
