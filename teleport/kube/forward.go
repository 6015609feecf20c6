package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"shakedown.dev/shakedown/history"
)

// Forward is one connection to a port of a pod, carried through the proxy: what kubectl port-forward does for each
// that it accepts. One goroutine may read, another write.
type Forward struct {
	conn   httpstream.Connection
	data   httpstream.Stream
	fwd    *forwarder
	phases []history.PhaseTime
	ours   atomic.Bool
	words  chan string // what Kubernetes said on the error stream, once that has ended
}

// Forward opens a connection to a port of a pod. Every error is an *OpenError; the only phase is stream, because
// client-go tells nothing of those before. That the pod listens is known only when something comes.
func (c *Client) Forward(ctx context.Context, t Target, port int) (*Forward, error) {
	began := time.Now()
	f, err := c.startForward(ctx, t, port)
	if err != nil {
		return nil, c.spdyFailed(err, began)
	}
	f.phases = []history.PhaseTime{{Phase: history.PhaseStream, Took: time.Since(began)}}
	return f, nil
}

func (c *Client) startForward(ctx context.Context, t Target, port int) (*Forward, error) {
	fwd, config, err := c.forward()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, fwd.Close)
	f := &Forward{fwd: fwd, words: make(chan string, 1)}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err == nil {
		url := onto(config, c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("portforward"))
		f.conn, _, err = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	}
	if err == nil {
		err = f.streams(port)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// streams opens the two streams of a forwarded connection, as client-go's port forwarder does.
func (f *Forward) streams(port int) error {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	said, err := f.conn.CreateStream(headers)
	if err != nil {
		return err
	}
	_ = said.Close() // nothing is written to it
	go func() {
		text, _ := io.ReadAll(io.LimitReader(said, 4096))
		f.words <- strings.Join(strings.Fields(string(text)), " ")
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	if f.data, err = f.conn.CreateStream(headers); err == nil {
		return nil
	}
	// Where nobody listens the stream may be reset before it is seen to stand; the other one says why.
	select {
	case words := <-f.words:
		if words != "" {
			return fmt.Errorf("%w: %s", io.EOF, words)
		}
	case <-time.After(settle):
	}
	return err
}

func (f *Forward) Read(p []byte) (int, error)  { return f.data.Read(p) }
func (f *Forward) Write(p []byte) (int, error) { return f.data.Write(p) }

// Close ends the connection at once.
func (f *Forward) Close() error {
	f.ours.Store(true)
	if f.conn != nil {
		f.conn.Close()
	}
	f.fwd.Close()
	return nil
}

// End tells how the connection ended. Call it after Read returned an error; ctx bounds how long what Kubernetes said
// is waited for.
func (f *Forward) End(ctx context.Context) End {
	end := End{Ours: f.ours.Load(), Cut: history.CutEOF, Err: io.EOF}
	if end.Ours {
		return end
	}
	select {
	case <-f.conn.CloseChan():
		return end
	case end.Message = <-f.words:
	case <-ctx.Done():
	}
	if end.Message != "" {
		end.Cut = history.CutMessage
		return end
	}
	// When all of it was cut, the streams are seen to end first.
	select {
	case <-f.conn.CloseChan():
	case <-time.After(settle):
		end.Cut, end.Err = history.CutChannel, errors.New("the forwarded connection was closed")
	}
	return end
}

// settle is how long after its streams a connection may be seen to end.
const settle = 250 * time.Millisecond

// Phases are the phases of opening with their times.
func (f *Forward) Phases() []history.PhaseTime { return f.phases }

// LocalAddr and RemoteAddr are our end on loopback and the proxy.
func (f *Forward) LocalAddr() net.Addr  { return f.fwd.listener.Addr() }
func (f *Forward) RemoteAddr() net.Addr { return f.fwd.remote() }
