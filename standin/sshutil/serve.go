package sshutil

import (
	"context"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// HandshakeTimeout bounds the TLS and SSH handshakes of a new connection.
const HandshakeTimeout = 30 * time.Second

// Handler serves the channels and global requests of one connection. Both methods are called from one goroutine and must not block.
type Handler interface {
	Channel(ctx context.Context, conn *ssh.ServerConn, ch ssh.NewChannel)
	Request(conn *ssh.ServerConn, req *ssh.Request)
}

// Handshake runs the server side of the SSH handshake within HandshakeTimeout.
func Handshake(conn net.Conn, cfg *ssh.ServerConfig) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	// A channel has no deadlines, so a timer closes what does not shake hands.
	timer := time.AfterFunc(HandshakeTimeout, func() { conn.Close() })
	defer timer.Stop()
	return ssh.NewServerConn(conn, cfg)
}

// Serve runs a connection that has shaken hands until it ends or ctx does, which closes it.
func Serve(ctx context.Context, conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request, h Handler) {
	defer conn.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case ch, ok := <-chans:
			if !ok {
				return
			}
			h.Channel(ctx, conn, ch)
		case req, ok := <-reqs:
			if !ok {
				return
			}
			h.Request(conn, req)
		}
	}
}

// RefuseRequest answers a global request nobody handles, keep-alives among them, as OpenSSH does.
func RefuseRequest(req *ssh.Request) {
	if req.WantReply {
		req.Reply(false, nil)
	}
}
