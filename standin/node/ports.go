package node

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil"
)

// forwardPort serves a direct-tcpip channel by dialling from this host.
func (c *Conn) forwardPort(ctx context.Context, nch ssh.NewChannel) {
	var req struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nch.ExtraData(), &req); err != nil {
		nch.Reject(ssh.UnknownChannelType, "failed to parse direct-tcpip request")
		return
	}
	addr := net.JoinHostPort(req.Host, strconv.FormatUint(uint64(req.Port), 10))
	if !c.srv.cfg.Forward || !c.Access.PortForwarding() || !c.Identity.Permits(sshutil.PermitPortForwarding) {
		err := errors.New("port forwarding not allowed")
		c.srv.cfg.Emitter.Emit(c.portEvent(addr, err))
		nch.Reject(ssh.Prohibited, err.Error())
		return
	}
	target, err := c.dialPort(ctx, addr)
	c.srv.cfg.Emitter.Emit(c.portEvent(addr, err))
	if err != nil {
		nch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer target.Close()
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	sshutil.NewBuffers().Join(ch, target)
	c.srv.cfg.Emitter.Emit(c.dataEvent(""))
}

func (c *Conn) dialPort(ctx context.Context, addr string) (io.ReadWriteCloser, error) {
	if d, ok := c.target.Runner.(Dialer); ok {
		return d.DialPort(ctx, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
