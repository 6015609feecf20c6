package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"shakedown.dev/shakedown/standin/sshutil"
	"shakedown.dev/shakedown/standin/tunnel"
)

// ALPN values and server name prefixes of Teleport's TLS routing.
const (
	alpnSSH        = "teleport-proxy-ssh"
	alpnTunnelV2   = "teleport-reversetunnelv2"
	alpnAuthPrefix = "teleport-auth@"
	sniKubePrefix  = "kube-teleport-proxy-alpn."
	sniKubeOld     = "kube."
	alpnHTTP1      = "http/1.1"
)

// route is what a ClientHello asks for.
type route int

const (
	routeWeb route = iota
	routeSSH
	routeTunnel
	routeAuth
	routeKube
)

// routeOf decides like the real ALPN router: Kubernetes by server name, then the first of the client's protocols that is known.
func routeOf(serverName string, protocols []string) (route, error) {
	if strings.HasPrefix(serverName, sniKubePrefix) || strings.HasPrefix(serverName, sniKubeOld) {
		return routeKube, nil
	}
	if len(protocols) == 0 {
		return routeWeb, nil
	}
	for _, p := range protocols {
		switch {
		case p == alpnSSH:
			return routeSSH, nil
		case p == tunnel.ALPN, p == alpnTunnelV2:
			return routeTunnel, nil
		case strings.HasPrefix(p, alpnAuthPrefix):
			return routeAuth, nil
		case p == alpnHTTP1, p == "h2", p == "acme-tls/1":
			return routeWeb, nil
		}
	}
	return routeWeb, fmt.Errorf("failed to find ALPN handler based on received client supported protocols %q", protocols)
}

// errPassThrough stops our TLS handshake: the connection goes on untouched to the auth.
var errPassThrough = errors.New("passed through")

// routeTLS reads the ClientHello of a connection to the web port and serves what it asks for.
func (s *service) routeTLS(ctx context.Context, conn net.Conn) {
	hello := &helloConn{Conn: conn}
	var to route
	cfg := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		var err error
		to, err = routeOf(info.ServerName, info.SupportedProtos)
		if err == nil && to == routeAuth {
			hello.mute = true // nothing of the aborted handshake may be sent
			return nil, errPassThrough
		}
		hello.stop()
		if err != nil {
			return nil, err
		}
		return s.configFor(to), nil
	}}
	tlsConn := tls.Server(hello, cfg)
	conn.SetDeadline(time.Now().Add(sshutil.HandshakeTimeout))
	err := tlsConn.HandshakeContext(ctx)
	conn.SetDeadline(time.Time{})
	if errors.Is(err, errPassThrough) {
		s.passToAuth(ctx, hello)
		return
	}
	if err != nil {
		s.env.Log.Debug("TLS handshake", "remote", conn.RemoteAddr(), "err", err)
		return
	}
	s.serveRoute(ctx, to, tlsConn)
}

func (s *service) configFor(to route) *tls.Config {
	if to == routeKube {
		return s.kube.TLSConfig()
	}
	if to == routeWeb {
		return s.tlsWeb
	}
	return s.tlsRaw // the real proxy negotiates no protocol, though the client offers one
}

func (s *service) serveRoute(ctx context.Context, to route, conn *tls.Conn) {
	defer conn.Close()
	switch to {
	case routeSSH:
		s.ssh.handle(ctx, conn)
	case routeTunnel:
		s.tunnels.Handle(ctx, conn)
	case routeKube:
		s.kube.HandleTLS(ctx, conn)
	default:
		s.web.handle(ctx, conn)
	}
}

// passToAuth joins a connection, from its first byte on, to an auth.
func (s *service) passToAuth(ctx context.Context, conn *helloConn) {
	auth, err := s.router.dialAuth(ctx)
	if err != nil {
		s.env.Log.Warn("pass to auth", "err", err)
		return
	}
	defer auth.Close()
	stop := context.AfterFunc(ctx, func() { conn.Conn.Close(); auth.Close() })
	defer stop()
	if _, err := auth.Write(conn.seen.Bytes()); err != nil {
		return
	}
	conn.seen = bytes.Buffer{}
	s.ssh.buffers.Join(conn.Conn.(joinable), auth)
}

type joinable interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	Close() error
}

// helloConn keeps what is read until the ClientHello has been judged.
type helloConn struct {
	net.Conn
	seen    bytes.Buffer
	stopped bool
	mute    bool
}

func (c *helloConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.stopped {
		c.seen.Write(p[:n])
	}
	return n, err
}

func (c *helloConn) Write(p []byte) (int, error) {
	if c.mute {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *helloConn) stop() {
	c.stopped = true
	c.seen = bytes.Buffer{}
}
