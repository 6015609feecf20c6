package sshutil

import (
	"context"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// HandshakeTimeout bounds the TLS and SSH handshakes of a new connection.
const HandshakeTimeout = 30 * time.Second

// Handler serves the channels and global requests of one connection. Its methods are called from one goroutine and must not block.
type Handler interface {
	// Channel takes or rejects a channel. A session whose requests are to be served is returned with them.
	Channel(ctx context.Context, conn *ssh.ServerConn, ch ssh.NewChannel) (Session, <-chan *ssh.Request)
	Request(conn *ssh.ServerConn, req *ssh.Request)
}

// Session is a session channel. Request must not block; Gone is called once when the client closed the channel.
type Session interface {
	Request(ctx context.Context, req *ssh.Request)
	Gone()
}

// Handshake runs the server side of the SSH handshake within HandshakeTimeout.
func Handshake(conn net.Conn, cfg *ssh.ServerConfig) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	// A channel has no deadlines, so a timer closes what does not shake hands.
	timer := time.AfterFunc(HandshakeTimeout, func() { conn.Close() })
	defer timer.Stop()
	return ssh.NewServerConn(conn, cfg)
}

// Serve runs a connection that has shaken hands until it ends or ctx does, which closes it. The first session is served by the calling goroutine, as most connections have only one; each further one costs a goroutine.
func Serve(ctx context.Context, conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request, h Handler) {
	defer conn.Close()
	var first Session
	var firstReqs <-chan *ssh.Request
	defer func() {
		if first != nil {
			first.Gone()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case ch, ok := <-chans:
			if !ok {
				return
			}
			session, sessionReqs := h.Channel(ctx, conn, ch)
			switch {
			case session == nil:
			case first == nil:
				first, firstReqs = session, sessionReqs
			default:
				go serveSession(ctx, session, sessionReqs)
			}
		case req, ok := <-reqs:
			if !ok {
				return
			}
			h.Request(conn, req)
		case req, ok := <-firstReqs:
			if !ok {
				first.Gone()
				first, firstReqs = nil, nil
				continue
			}
			first.Request(ctx, req)
		}
	}
}

func serveSession(ctx context.Context, s Session, reqs <-chan *ssh.Request) {
	defer s.Gone()
	for req := range reqs {
		s.Request(ctx, req)
	}
}

// RefuseRequest answers a global request nobody handles, keep-alives among them, as OpenSSH does.
func RefuseRequest(req *ssh.Request) {
	if req.WantReply {
		req.Reply(false, nil)
	}
}
