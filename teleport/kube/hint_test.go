package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// TestHints tries what goes wrong before Kubernetes itself is asked: each error says what to do.
func TestHints(t *testing.T) {
	ours, theirs := authority(t, "lab.example.com"), authority(t, "other.example.com")
	for _, tt := range []struct {
		because string
		dial    DialFunc
		cut     history.Cut
		says    string
	}{
		{"nothing listens", failing(syscall.ECONNREFUSED), history.CutConnect, "nothing listens there"},
		{"nobody answers", failing(context.DeadlineExceeded), history.CutTimeout, "firewall"},
		{"it hangs up", serving(t, hangUp), history.CutEOF, "without a word"},
		{"it is of another cluster", serving(t, handshake(t, theirs, "*.teleport.cluster.local")), history.CutProtocol, "signed by another cluster"},
		{"its certificate is for another name", serving(t, handshake(t, ours, "web.example.com")), history.CutProtocol, "not for Kubernetes"},
	} {
		t.Run(tt.because, func(t *testing.T) {
			id, _, err := ours.Identity("load-0", time.Now().Add(time.Hour), "root")
			if err != nil {
				t.Fatal(err)
			}
			c, err := New(Options{Dial: tt.dial, Identity: id, Address: "10.1.2.3:3080"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Exec(t.Context(), Target{"ns", "p", "c"}, Start{Command: []string{"cat"}})
			var e *OpenError
			if !errors.As(err, &e) || e.Cut != tt.cut || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want cut %s and %q", err, tt.cut, tt.says)
			}
		})
	}
}

// hangUp reads what there is to the end: closed with something unread, a connection is reset.
func hangUp(c net.Conn) {
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

func authority(t *testing.T, cluster string) *sshtest.Authority {
	t.Helper()
	a, err := sshtest.NewAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func failing(err error) DialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: err}
	}
}

// serving dials a server that does this with each connection.
func serving(t *testing.T, do func(net.Conn)) DialFunc {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go do(conn)
		}
	}()
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
	}
}

func handshake(t *testing.T, a *sshtest.Authority, host string) func(net.Conn) {
	t.Helper()
	conf, err := a.TLS(host)
	if err != nil {
		t.Fatal(err)
	}
	return func(c net.Conn) {
		defer c.Close()
		_ = tls.Server(c, conf).Handshake()
	}
}
