package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errForeign is returned when the socket of our cluster's name is held by somebody else: abstract names
// have no permissions, so anybody on the machine may bind one.
var errForeign = errors.New("the control socket belongs to another user")

// wire is one connection to a control socket.
type wire struct {
	conn *net.UnixConn
	buf  []byte
	fds  []int
	pid  int // of the process that sent the last message, from the kernel; 0 before
}

// dialWire connects to the cluster's control socket and makes sure that uid listens there.
func dialWire(ctx context.Context, socket string, uid int) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn.(*net.UnixConn)}
	if err := w.authenticate(uid); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// authenticate asks the kernel who listens, and to attach the sender's pid to every message.
func (w *wire) authenticate(uid int) error {
	raw, err := w.conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var credErr, passErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		passErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}); err != nil {
		return err
	}
	if err := errors.Join(credErr, passErr); err != nil {
		return fmt.Errorf("authenticate the control socket: %w", err)
	}
	if int(peer.Uid) != uid {
		return errForeign
	}
	return nil
}

// until makes pending reads and writes fail when ctx ends. Call stop before the connection is kept.
func (w *wire) until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = w.conn.Close() })
}

// send writes one line with descriptors, which stay the caller's.
func (w *wire) send(message any, files ...*os.File) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	line = append(line, '\n')
	n, _, err := w.conn.WriteMsgUnix(line, rights, nil)
	if err == nil && n < len(line) {
		_, err = w.conn.Write(line[n:])
	}
	return err
}

// receive reads one line. Descriptors that came with it are in w.fds.
func (w *wire) receive(into any) error {
	chunk, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		if line, rest, ok := bytes.Cut(w.buf, []byte{'\n'}); ok {
			w.buf = rest
			return json.Unmarshal(line, into)
		}
		n, oobn, _, _, err := w.conn.ReadMsgUnix(chunk, oob)
		if err != nil {
			return err
		}
		w.buf = append(w.buf, chunk[:n]...)
		if err := w.control(oob[:oobn]); err != nil {
			return err
		}
	}
}

func (w *wire) control(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.SCM_RIGHTS:
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				return err
			}
			w.fds = append(w.fds, fds...)
		case unix.SCM_CREDENTIALS:
			if cred, err := unix.ParseUnixCredentials(&m); err == nil && cred.Pid != 0 {
				w.pid = int(cred.Pid)
			}
		}
	}
	return nil
}

// takeConn makes the one socket that was received into a connection.
func (w *wire) takeConn() (net.Conn, error) {
	if len(w.fds) != 1 {
		return nil, fmt.Errorf("kubelite sent %d sockets, want 1", len(w.fds))
	}
	file := os.NewFile(uintptr(w.fds[0]), "dialled")
	w.fds = nil
	defer file.Close()
	return net.FileConn(file)
}

// Close closes the connection and what was received and not taken.
func (w *wire) Close() error {
	for _, fd := range w.fds {
		_ = unix.Close(fd)
	}
	w.fds = nil
	return w.conn.Close()
}

// refusal is an answer that says no.
type refusal struct {
	Op    string
	Text  string
	Errno syscall.Errno
}

func (r *refusal) Error() string { return r.Text }

func (r *refusal) Unwrap() error {
	if r.Errno == 0 {
		return nil
	}
	return r.Errno
}

func (r Response) err(op string) error {
	if r.Error == "" && r.Errno == 0 {
		return nil
	}
	text := r.Error
	if text == "" {
		text = syscall.Errno(r.Errno).Error()
	}
	return &refusal{Op: op, Text: text, Errno: syscall.Errno(r.Errno)}
}
