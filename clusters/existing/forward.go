package existing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// reasonLag is how long the end of a connection waits for the reason: the two come on streams of their own.
const reasonLag = time.Second

// forward opens a connection to a pod through the API server, for this one alone: what ends it ends no other.
func (c *Cluster) forward(ctx context.Context, to endpoint) (*forwardedConn, error) {
	dialer, err := c.forwarder(to)
	if err != nil {
		return nil, err
	}
	type dialled struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{conn, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("port-forward to pod %s/%s: %w", to.namespace, to.pod, d.err)
		}
		return streams(d.conn, to)
	case <-ctx.Done(): // the dialer knows no context
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// forwarder speaks WebSocket (KEP-4006), and SPDY with an API server or a proxy that does not.
func (c *Cluster) forwarder(to endpoint) (httpstream.Dialer, error) {
	url := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	classic := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, c.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, classic, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// streams opens the two streams of one forwarded connection, as the kubelet's protocol has them.
func streams(conn httpstream.Connection, to endpoint) (*forwardedConn, error) {
	h := http.Header{}
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	h.Set(corev1.PortHeader, strconv.Itoa(to.port))
	h.Set(corev1.PortForwardRequestIDHeader, "0")
	reasons, err := conn.CreateStream(h)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = reasons.Close() // nothing is ever sent on it
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(h)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	near, far := net.Pipe() // deadlines, which a stream has none of
	f := &forwardedConn{Conn: near, conn: conn, to: to, told: make(chan struct{})}
	go f.listen(reasons, far)
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close()
	}()
	go func() {
		_, _ = io.Copy(far, data)
		select {
		case <-f.told:
		case <-time.After(reasonLag):
		}
		_ = far.Close()
		_ = conn.Close()
	}()
	return f, nil
}

// forwardedConn is a connection whose end closes what it came through, and tells what the kubelet said of it.
type forwardedConn struct {
	net.Conn
	conn httpstream.Connection
	to   endpoint
	told chan struct{} // closed when the kubelet has no more to say

	mu     sync.Mutex
	reason error
}

// listen waits for what the kubelet has to say; if it says anything, the connection is no more.
func (f *forwardedConn) listen(reasons io.Reader, far net.Conn) {
	defer close(f.told)
	text, _ := io.ReadAll(reasons)
	if len(text) == 0 {
		return
	}
	f.mu.Lock()
	f.reason = reasonOf(string(text))
	f.mu.Unlock()
	_ = far.Close()
	_ = f.conn.Close()
}

// reasonOf gives the kubelet's text the errno that it tells of: the protocol has nothing but the text.
func reasonOf(text string) error {
	text = strings.TrimSpace(text)
	for _, no := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT} {
		if strings.Contains(text, no.Error()) {
			return fmt.Errorf("port-forward: %s: %w", text, no)
		}
	}
	return fmt.Errorf("port-forward: %s", text)
}

func (f *forwardedConn) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	return n, f.explain("read", err)
}

func (f *forwardedConn) Write(p []byte) (int, error) {
	n, err := f.Conn.Write(p)
	return n, f.explain("write", err)
}

// explain puts the reason in the place of the end that it brought about.
func (f *forwardedConn) explain(op string, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reason == nil {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: f.RemoteAddr(), Err: f.reason}
}

func (f *forwardedConn) Close() error { return errors.Join(f.Conn.Close(), f.conn.Close()) }

func (f *forwardedConn) RemoteAddr() net.Addr { return inside{"tcp", f.to.address()} }

// LocalAddr is none that the pod would know.
func (f *forwardedConn) LocalAddr() net.Addr { return inside{"tcp", "port-forward"} }
