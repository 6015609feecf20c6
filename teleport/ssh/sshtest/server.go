package sshtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// NodeID is the UUID of the only node.
const NodeID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// Server is a proxy with one node behind it.
type Server struct {
	Authority *Authority
	Address   string // web port, with TLS routing
	Separate  string // SSH port, plain TCP
	NodeAddr  string // the node's own SSH port

	// What goes wrong, to be set before it is met.
	RouteRefusal string // reason on the error stream
	ShellRefusal string
	// Shell serves the shells of the node, which are numbered from 0; nil: they give back what they are sent.
	Shell func(n int, ch ssh.Channel)

	listeners []net.Listener
	proxy     *ssh.ServerConfig
	node      *ssh.ServerConfig
	web       *tls.Config

	mu    sync.Mutex
	conns map[net.Conn]bool // from clients to the proxy
	vias  map[ssh.Channel]bool

	shells atomic.Int64
}

// Start serves on loopback until Close. The proxy's certificate is for localhost and for names.
func Start(a *Authority, names ...string) (*Server, error) {
	s := &Server{Authority: a, conns: map[net.Conn]bool{}, vias: map[ssh.Channel]bool{}}
	var err error
	if s.proxy, err = s.config(append([]string{"localhost", "127.0.0.1"}, names...)...); err != nil {
		return nil, err
	}
	if s.node, err = s.config(NodeID, NodeID+"."+a.Cluster); err != nil {
		return nil, err
	}
	if s.web, err = webTLS(a); err != nil {
		return nil, err
	}
	s.Address, err = s.listen(func(c net.Conn) { s.serveProxy(tls.Server(c, s.web)) })
	if err != nil {
		return nil, err
	}
	if s.Separate, err = s.listen(s.serveProxy); err != nil {
		return nil, err
	}
	s.NodeAddr, err = s.listen(s.serveNode)
	return s, err
}

// Close ends everything.
func (s *Server) Close() {
	for _, ln := range s.listeners {
		ln.Close()
	}
	s.DropClients(false)
}

// DropClients cuts every connection to the proxy, with a TCP reset if asked.
func (s *Server) DropClients(reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		if t, ok := c.(*net.TCPConn); ok && reset {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
}

// DropNodes cuts what lies behind the proxy and leaves the clients' connections to it.
func (s *Server) DropNodes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for via := range s.vias {
		via.Close()
	}
}

func (s *Server) listen(serve func(net.Conn)) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.listeners = append(s.listeners, ln)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln.Addr().String(), nil
}

func (s *Server) config(names ...string) (*ssh.ServerConfig, error) {
	host, err := s.Authority.Host(names...)
	if err != nil {
		return nil, err
	}
	checker := ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
		return bytes.Equal(key.Marshal(), s.Authority.ssh.PublicKey().Marshal())
	}}
	conf := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate, ServerVersion: "SSH-2.0-Teleport-test"}
	conf.AddHostKey(host)
	return conf, nil
}

func webTLS(a *Authority) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := a.leaf("localhost", key.Public(), time.Now().Add(time.Hour))
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"teleport-proxy-ssh", "h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}, err
}

func (s *Server) serveProxy(c net.Conn) {
	defer c.Close()
	conn, chans, reqs, err := ssh.NewServerConn(c, s.proxy)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	defer func() { s.mu.Lock(); delete(s.conns, c); s.mu.Unlock() }()
	go answer(reqs)
	for ch := range chans {
		channel, chReqs, err := ch.Accept()
		if err == nil {
			go s.proxyChannel(channel, chReqs)
		}
	}
	_ = conn.Wait()
}

func (s *Server) proxyChannel(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	for req := range reqs {
		if req.Type != "subsystem" {
			req.Reply(true, nil)
			continue
		}
		if name := string(req.Payload[4:]); s.RouteRefusal != "" || name != "proxy:"+NodeID+":0@"+s.Authority.Cluster {
			reason := s.RouteRefusal
			if reason == "" {
				reason = "node " + name + " not found"
			}
			fmt.Fprintln(ch.Stderr(), reason)
			req.Reply(false, nil)
			continue
		}
		req.Reply(true, nil)
		s.mu.Lock()
		s.vias[ch] = true
		s.mu.Unlock()
		go s.serveNode(&pipe{Channel: ch})
	}
}

func (s *Server) serveNode(c net.Conn) {
	defer c.Close()
	_, chans, reqs, err := ssh.NewServerConn(c, s.node)
	if err != nil {
		return
	}
	go answer(reqs)
	for ch := range chans {
		if s.ShellRefusal != "" {
			ch.Reject(ssh.Prohibited, s.ShellRefusal)
			continue
		}
		channel, chReqs, err := ch.Accept()
		if err == nil {
			go s.nodeChannel(channel, chReqs)
		}
	}
}

// nodeChannel runs a shell that gives back what it is sent, or the command "exit N", or "say TEXT".
func (s *Server) nodeChannel(ch ssh.Channel, reqs <-chan *ssh.Request) {
	for req := range reqs {
		if req.WantReply {
			req.Reply(true, nil)
		}
		switch req.Type {
		case "shell":
			if n := int(s.shells.Add(1)) - 1; s.Shell != nil {
				go s.Shell(n, ch)
				break
			}
			go func() {
				_, err := io.Copy(ch, ch)
				if err == nil {
					exit(ch, 0)
				}
			}()
		case "exec":
			command := string(req.Payload[4:])
			if text, ok := strings.CutPrefix(command, "say "); ok {
				fmt.Fprintln(ch, text)
				exit(ch, 0)
				break
			}
			status, err := strconv.Atoi(strings.TrimPrefix(command, "exit "))
			if err != nil {
				status = 127
			}
			exit(ch, status)
		}
	}
}

func exit(ch ssh.Channel, status int) {
	_, err := ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
	if err = errors.Join(err, ch.Close()); err != nil && !errors.Is(err, io.EOF) {
		return
	}
}

func answer(reqs <-chan *ssh.Request) {
	for req := range reqs {
		if req.WantReply {
			req.Reply(req.Type == "keepalive@openssh.com", nil)
		}
	}
}

// pipe is a channel as the net.Conn that NewServerConn wants.
type pipe struct{ ssh.Channel }

func (pipe) LocalAddr() net.Addr              { return new(net.TCPAddr) }
func (pipe) RemoteAddr() net.Addr             { return new(net.TCPAddr) }
func (pipe) SetDeadline(time.Time) error      { return nil }
func (pipe) SetReadDeadline(time.Time) error  { return nil }
func (pipe) SetWriteDeadline(time.Time) error { return nil }
