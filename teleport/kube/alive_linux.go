package kube

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How TCP asks for a sign of life once Ping has been called, and how often its answer is looked for.
const (
	askEvery  = time.Second
	lookEvery = 100 * time.Millisecond
)

// heardFrom returns when the peer's kernel acknowledged anything after the call. It turns on TCP's keep-alive, which
// makes an idle peer do so (RFC 9293, 3.8.4), and reads when that was from tcp_info.
func heardFrom(ctx context.Context, conn net.Conn) error {
	tcp, ok := conn.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
		SyscallConn() (syscall.RawConn, error)
	})
	if !ok {
		return errors.ErrUnsupported
	}
	start := time.Now()
	// Never so few that the kernel ends the connection before its owner decides.
	if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: askEvery, Interval: askEvery, Count: 127}); err != nil {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	for {
		ago, err := sinceAck(raw)
		if err != nil {
			return err
		}
		if ago < time.Since(start) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ErrSilent
		case <-time.After(lookEvery):
		}
	}
}

// sinceAck is how long ago the peer last acknowledged something (tcp_info.tcpi_last_ack_recv, milliseconds).
func sinceAck(raw syscall.RawConn) (time.Duration, error) {
	var info *unix.TCPInfo
	var failed error
	err := raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond, nil
}
