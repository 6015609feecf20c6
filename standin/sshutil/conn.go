package sshutil

import (
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// ChannelConn is an SSH channel seen as a network connection. It has no deadlines: setting one does nothing.
type ChannelConn struct {
	ssh.Channel
	local, remote net.Addr
	onClose       func()
}

// NewChannelConn wraps a channel with the addresses of the connection that carries it. onClose, if not nil, runs at every Close.
func NewChannelConn(ch ssh.Channel, carrier ssh.ConnMetadata, onClose func()) *ChannelConn {
	return &ChannelConn{Channel: ch, local: carrier.LocalAddr(), remote: carrier.RemoteAddr(), onClose: onClose}
}

// Close closes the channel.
func (c *ChannelConn) Close() error {
	if c.onClose != nil {
		c.onClose()
	}
	return c.Channel.Close()
}

// LocalAddr is the local address of the carrying connection.
func (c *ChannelConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the remote address of the carrying connection.
func (c *ChannelConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline does nothing.
func (c *ChannelConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *ChannelConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *ChannelConn) SetWriteDeadline(time.Time) error { return nil }
