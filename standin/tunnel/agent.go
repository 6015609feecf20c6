package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil"
)

// errClaimed means that another agent of this pool is connected to the proxy already.
var errClaimed = errors.New("proxy claimed by another agent")

// agent is one tunnel to one proxy.
type agent struct {
	pool    *Pool
	proxyID string
	client  ssh.Conn
	hb      ssh.Channel
	drain   chan struct{} // closed once the proxy advised to reconnect
	advise  func()
	open    sync.WaitGroup // transports
}

// connect dials a proxy, claims it and sends the first heartbeat.
func (p *Pool) connect(ctx context.Context) (a *agent, err error) {
	raw, err := p.cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	a = &agent{pool: p, drain: make(chan struct{})}
	a.advise = sync.OnceFunc(func() { close(a.drain) })
	client, chans, reqs, err := p.handshake(ctx, raw, a)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("handshake with proxy at %s: %w", raw.RemoteAddr(), err)
	}
	a.client = client
	if !p.claim(a) {
		client.Close()
		return nil, fmt.Errorf("%w: %s", errClaimed, a.proxyID)
	}
	go a.requests(reqs)
	go a.channels(ctx, chans)
	if err := a.firstBeat(); err != nil {
		p.release(a)
		client.Close()
		return nil, fmt.Errorf("heartbeat to proxy %s: %w", a.proxyID, err)
	}
	return a, nil
}

func (p *Pool) handshake(ctx context.Context, raw net.Conn, a *agent) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	timer := time.AfterFunc(sshutil.HandshakeTimeout, func() { raw.Close() })
	defer timer.Stop()
	return ssh.NewClientConn(raw, "proxy", &ssh.ClientConfig{
		Config: sshutil.Algorithms(),
		User:   p.cfg.UUID,
		Auth:   []ssh.AuthMethod{ssh.PublicKeys(p.cfg.HostKey)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			cas, err := p.cfg.HostCAs(ctx)
			if err != nil {
				return err
			}
			host, err := sshutil.CheckHost(key, cas)
			a.proxyID = host.UUID
			return err
		},
	})
}

func (a *agent) firstBeat() error {
	ch, reqs, err := a.client.OpenChannel(channelHeartbeat, nil)
	if err != nil {
		return err
	}
	go ssh.DiscardRequests(reqs)
	a.hb = ch
	_, err = ch.SendRequest(requestPing, false, nil)
	return err
}

// run sends heartbeats until the connection ends, ctx does, or the proxy advises to reconnect and the last transport is over.
func (a *agent) run(ctx context.Context) {
	defer a.pool.release(a)
	defer a.client.Close()
	gone := make(chan struct{})
	go func() { a.client.Wait(); close(gone) }()
	ticker := time.NewTicker(a.pool.cfg.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case <-a.drain:
			a.pool.release(a)
			a.waitTransports(ctx, gone)
			return
		case <-ticker.C:
			now, err := time.Now().UTC().MarshalText()
			if err != nil {
				return
			}
			if _, err := a.hb.SendRequest(requestPing, false, now); err != nil {
				return
			}
		}
	}
}

func (a *agent) waitTransports(ctx context.Context, gone <-chan struct{}) {
	idle := make(chan struct{})
	go func() { a.open.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-gone:
	case <-ctx.Done():
	}
}

func (a *agent) draining() bool {
	select {
	case <-a.drain:
		return true
	default:
		return false
	}
}

func (a *agent) requests(reqs <-chan *ssh.Request) {
	for req := range reqs {
		switch req.Type {
		case requestReconnect:
			if req.WantReply {
				req.Reply(true, nil)
			}
			a.advise()
		case requestVersion:
			req.Reply(true, []byte(a.pool.cfg.Version))
		default:
			sshutil.RefuseRequest(req)
		}
	}
}

func (a *agent) channels(ctx context.Context, chans <-chan ssh.NewChannel) {
	for nch := range chans {
		switch nch.ChannelType() {
		case channelDiscovery:
			go a.discover(nch)
		case channelTransport:
			if a.draining() {
				nch.Reject(ssh.ConnectionFailed, "agent connection is draining")
				continue
			}
			a.open.Add(1)
			go func() {
				defer a.open.Done()
				a.transport(ctx, nch)
			}()
		default:
			nch.Reject(ssh.UnknownChannelType, "unknown channel type "+nch.ChannelType())
		}
	}
}

func (a *agent) discover(nch ssh.NewChannel) {
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for req := range reqs {
		names, err := decodeDiscovery(req.Payload)
		if err != nil {
			a.pool.cfg.Log.Warn("discovery from proxy", "proxy", a.proxyID, "err", err)
			continue
		}
		a.pool.expect(names)
	}
}

// transport connects one channel to the server and returns when the server is done with it.
func (a *agent) transport(ctx context.Context, nch ssh.NewChannel) {
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	req := <-reqs
	if req == nil || req.Type != requestDial {
		return
	}
	var dial dialRequest
	if err := json.Unmarshal(req.Payload, &dial); err != nil {
		a.refuse(ch, req, "malformed dial request: "+err.Error())
		return
	}
	if want := a.pool.cfg.UUID; !strings.HasPrefix(dial.ServerID, want) {
		a.refuse(ch, req, fmt.Sprintf("connection rejected: this is %s, not %s", want, dial.ServerID))
		return
	}
	req.Reply(true, []byte("Connected."))
	a.pool.cfg.Handle(ctx, sshutil.NewChannelConn(ch, connMetadata{a.client}, nil))
}

func (a *agent) refuse(ch ssh.Channel, req *ssh.Request, reason string) {
	fmt.Fprint(ch.Stderr(), reason)
	req.Reply(false, []byte(reason))
}

// connMetadata hands the addresses of a client connection on.
type connMetadata struct{ ssh.Conn }
