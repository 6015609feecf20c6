package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/history"
)

// Target is a container to run something in.
type Target struct{ Namespace, Pod, Container string }

// Start says what to run.
type Start struct {
	Command []string
	TTY     bool // Teleport records only sessions that have one
	SPDY    bool // the older protocol; else WebSocket
}

// OpenError says why a stream could not be opened.
type OpenError struct {
	Phase  history.Phase // connect, tls, upgrade or stream
	Cut    history.Cut
	Status int    // of HTTP, if there was an answer
	Reason string // what the server said
	Hint   string
	Phases []history.PhaseTime
	Err    error
}

func (e *OpenError) Error() string {
	s := string(e.Phase) + ": "
	if e.Reason != "" {
		s += e.Reason
	} else {
		s += e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *OpenError) Unwrap() error { return e.Err }

// protocols of Kubernetes' remote command streams: a byte before each message names the channel. Version 5 can also
// close one; Teleport 13 knows 4.
var protocols = []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}

// writeBuffer is how much of a WebSocket message is sent as one frame, in bytes.
const writeBuffer = 2048

// Exec runs a command in a container and holds its streams. Every error is an *OpenError. ctx bounds the opening.
func (c *Client) Exec(ctx context.Context, t Target, s Start) (*Stream, error) {
	if s.SPDY {
		return c.execSPDY(ctx, t, s)
	}
	o := &opening{client: c, clock: time.Now()}
	dialer := websocket.Dialer{
		NetDialTLSContext: o.dial, Subprotocols: protocols,
		ReadBufferSize: 2048, WriteBufferSize: writeBuffer,
	}
	url := c.execRequest(t, s).URL()
	url.Scheme = "wss"
	o.phase = history.PhaseConnect
	conn, resp, err := dialer.DialContext(ctx, url.String(), nil)
	o.took()
	if err != nil {
		return nil, o.failed(err, resp)
	}
	if conn.Subprotocol() == "" {
		conn.Close()
		return nil, o.failed(errors.New("no stream protocol was agreed"), resp)
	}
	return newStream(conn, o.phases, o.raw), nil
}

func (c *Client) execRequest(t Target, s Start) *rest.Request {
	return c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: t.Container, Command: s.Command, TTY: s.TTY, Stdin: true, Stdout: true, Stderr: !s.TTY,
		}, scheme.ParameterCodec)
}

// opening times the phases of one stream's opening.
type opening struct {
	client *Client
	phase  history.Phase
	phases []history.PhaseTime
	clock  time.Time
	raw    net.Conn
}

// took ends the present phase.
func (o *opening) took() {
	now := time.Now()
	o.phases = append(o.phases, history.PhaseTime{Phase: o.phase, Took: now.Sub(o.clock)})
	o.clock = now
}

func (o *opening) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	raw, err := o.client.opts.Dial(ctx, network, o.client.opts.Address)
	if err != nil {
		return nil, err
	}
	o.took()
	o.phase, o.raw = history.PhaseTLS, raw
	conf, err := rest.TLSConfigFor(o.client.config)
	if err != nil {
		raw.Close()
		return nil, err
	}
	conf.NextProtos = []string{"http/1.1"} // an upgrade is not possible in HTTP/2
	secure := tls.Client(raw, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	o.took()
	o.phase = history.PhaseUpgrade
	return secure, nil
}

func (o *opening) failed(err error, resp *http.Response) error {
	if o.raw != nil {
		o.raw.Close()
	}
	e := &OpenError{Phase: o.phase, Phases: o.phases, Err: err, Cut: cutOf(err)}
	if resp != nil {
		e.Status = resp.StatusCode
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		e.Reason = strings.TrimSpace(fmt.Sprintf("%s %s", resp.Status, reason(body)))
		e.Cut = history.CutDenied
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusNotFound {
			e.Cut = history.CutUnrouted
		}
	}
	e.Hint = o.client.hint(e)
	return e
}
