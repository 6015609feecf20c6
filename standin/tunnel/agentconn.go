package tunnel

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil"
)

// agentConn is one agent's connection as the proxy sees it.
type agentConn struct {
	ssh       *ssh.ServerConn
	key       agentKey
	heartbeat ssh.Channel
	news      chan []string
	discovery ssh.Channel

	ready    atomic.Bool // the first heartbeat came
	invalid  atomic.Bool // heartbeats stopped or the connection failed
	sessions atomic.Int64
}

// serve receives heartbeats and tells the agent of proxies until the connection ends.
func (a *agentConn) serve(ctx context.Context, cfg ServerConfig, reqs <-chan *ssh.Request) {
	defer a.ssh.Close()
	defer func() {
		a.invalid.Store(true)
		if a.ready.Load() {
			cfg.Connected.WithLabelValues(a.key.kind).Dec()
		}
	}()
	resync := time.NewTicker(proxySync)
	defer resync.Stop()
	offline := time.NewTimer(cfg.Offline)
	defer offline.Stop()
	last := time.Now()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case req := <-reqs:
			if req == nil {
				return
			}
			last = time.Now()
			offline.Reset(cfg.Offline)
			err = a.beat(cfg, req)
		case <-resync.C:
			err = a.tell(cfg.Proxies())
		case proxies := <-a.news:
			err = a.tell(proxies)
		case <-offline.C:
			a.invalid.Store(true)
			cfg.Log.Warn("no heartbeats from agent", "server", a.key.uuid, "for", time.Since(last))
			if time.Since(last) > 3*cfg.Offline && a.sessions.Load() == 0 {
				return
			}
			offline.Reset(cfg.Offline)
		}
		if err != nil {
			cfg.Log.Debug("tunnel to agent failed", "server", a.key.uuid, "err", err)
			return
		}
	}
}

// beat counts the tunnel at its first heartbeat and answers that one with the list of proxies.
func (a *agentConn) beat(cfg ServerConfig, req *ssh.Request) error {
	if req.WantReply {
		req.Reply(true, nil)
	}
	a.invalid.Store(false)
	if a.ready.Swap(true) {
		return nil
	}
	cfg.Connected.WithLabelValues(a.key.kind).Inc()
	return a.tell(cfg.Proxies())
}

// tell sends the list of proxies over the discovery channel.
func (a *agentConn) tell(proxies []string) error {
	if len(proxies) == 0 {
		return nil
	}
	if a.discovery == nil {
		ch, reqs, err := a.ssh.OpenChannel(channelDiscovery, nil)
		if err != nil {
			return err
		}
		go ssh.DiscardRequests(reqs)
		a.discovery = ch
	}
	_, err := a.discovery.SendRequest(requestDiscovery, false, encodeDiscovery(proxies))
	return err
}

// dial opens a transport channel. A tunnel that cannot carry it is marked invalid.
func (a *agentConn) dial(req dialRequest) (net.Conn, error) {
	payload, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// Agents send no requests on transport channels, so that nobody needs to drain them.
	ch, _, err := a.ssh.OpenChannel(channelTransport, nil)
	if err != nil {
		a.invalid.Store(true)
		return nil, err
	}
	ok, err := ch.SendRequest(requestDial, true, payload)
	if err != nil {
		a.invalid.Store(true)
		ch.Close()
		return nil, err
	}
	if !ok {
		defer ch.Close()
		return nil, readReason(ch, req)
	}
	a.sessions.Add(1)
	once := sync.OnceFunc(func() { a.sessions.Add(-1) })
	return sshutil.NewChannelConn(ch, a.ssh, once), nil
}
