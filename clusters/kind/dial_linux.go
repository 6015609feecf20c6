package kind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	wire "shakedown.dev/shakedown/clusters/gateway"
)

// ServeGateway listens on a unix socket until ctx ends, and dials for whoever asks: a socket keeps the network
// namespace that it was made in, wherever it is used.
func ServeGateway(ctx context.Context, path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer l.Close()
	// Its folder lets nobody in but its owner, who is somebody else than root in here.
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // see above
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go serve(ctx, conn.(*net.UnixConn))
	}
}

func serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	go func() { // that the caller closes its end is its way to give up
		_, _ = in.ReadByte()
		cancel()
	}()
	far, err := connect(ctx, line)
	answer(conn, far, err)
}

// connect gives a connected socket, or why not.
func connect(ctx context.Context, line []byte) (net.Conn, error) {
	var want asked
	if err := json.Unmarshal(line, &want); err != nil {
		return nil, err
	}
	address, err := absolute(want.Address)
	if err != nil {
		return nil, err
	}
	return dialer(want.DNS).DialContext(ctx, want.Network, address)
}

// answer sends what came of it, and the socket as a file descriptor with it.
func answer(conn *net.UnixConn, far net.Conn, err error) {
	if err == nil {
		defer far.Close()
		var raw syscall.RawConn
		if raw, err = far.(syscall.Conn).SyscallConn(); err == nil {
			err = raw.Control(func(fd uintptr) { send(conn, wire.Answer{}, unix.UnixRights(int(fd))) })
		}
		if err == nil {
			return
		}
	}
	send(conn, wire.AnswerTo(err), nil)
}

func send(conn *net.UnixConn, a wire.Answer, rights []byte) {
	line, err := json.Marshal(a)
	if err == nil {
		_, _, _ = conn.WriteMsgUnix(append(line, '\n'), rights, nil) // the caller is gone: then nobody waits
	}
}

// dialThrough asks the gateway behind a socket for a connection.
func dialThrough(ctx context.Context, socket string, want asked) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	line, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, cut(ctx, err)
	}
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, cut(ctx, err)
	}
	fds, err := received(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := parseAnswer(buf[:n]); err != nil {
		return nil, errors.Join(err, closeAll(fds))
	}
	if len(fds) != 1 {
		return nil, errors.Join(fmt.Errorf("the gateway sent %d sockets, want 1", len(fds)), closeAll(fds))
	}
	file := os.NewFile(uintptr(fds[0]), "dialled")
	defer file.Close()
	return net.FileConn(file)
}

func received(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

func closeAll(fds []int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// cut prefers what ended ctx to what the connection saw of it.
func cut(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("the cluster's gateway: %w", err)
}
