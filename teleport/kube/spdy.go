package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"shakedown.dev/shakedown/history"
)

// spdyStream is a command over SPDY: client-go runs it, pipes join it to a Stream.
type spdyStream struct {
	in     io.Writer
	out    io.Reader
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func (s *spdyStream) result() error {
	<-s.done
	return s.err
}

// first tells when the first byte came, or the stream was seen to stand.
type first struct {
	io.Writer
	once sync.Once
	ch   chan struct{}
}

func (f *first) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.ch) })
	return f.Writer.Write(p)
}

// execSPDY opens a stream over SPDY. client-go tells nothing between its start and the first output, so the only
// phase is stream, which ends with the first output.
func (c *Client) execSPDY(ctx context.Context, t Target, s Start) (*Stream, error) {
	fwd, config, err := c.forward()
	if err != nil {
		return nil, &OpenError{Phase: history.PhaseConnect, Err: err, Cut: history.CutProtocol}
	}
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, onto(config, c.execRequest(t, s)))
	if err != nil {
		fwd.Close()
		return nil, &OpenError{Phase: history.PhaseConnect, Err: err, Cut: history.CutProtocol}
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	began := time.Now()
	seen := &first{Writer: outW, ch: make(chan struct{})}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st := &spdyStream{in: inW, out: outR, cancel: cancel, done: make(chan struct{})}
	options := remotecommand.StreamOptions{Stdin: inR, Stdout: seen, Tty: s.TTY}
	if !s.TTY {
		options.Stderr = seen
	}
	go func() {
		st.err = executor.StreamWithContext(life, options)
		close(st.done)
		_ = outW.Close()
		_ = inW.Close() // the copy of the input ends with it
		fwd.Close()
	}()
	select {
	case <-seen.ch:
	case <-st.done:
		if _, exited := exitCode(st.err); st.err != nil && !exited {
			return nil, c.spdyFailed(st.err, began)
		}
	case <-ctx.Done():
		cancel()
		return nil, c.spdyFailed(ctx.Err(), began)
	}
	return &Stream{spdy: st, local: fwd.listener.Addr(), remote: fwd.remote(), phases: []history.PhaseTime{{Phase: history.PhaseStream, Took: time.Since(began)}}}, nil
}

func (c *Client) spdyFailed(err error, began time.Time) error {
	e := &OpenError{Phase: history.PhaseStream, Cut: cutOf(err), Err: err, Phases: []history.PhaseTime{{Phase: history.PhaseStream, Took: time.Since(began)}}}
	e.Hint = c.hint(e)
	return e
}

func exitCode(err error) (int, bool) {
	var code exec.CodeExitError
	exited := errors.As(err, &code)
	return code.Code, exited
}

// PortForward carries connections to a port of a pod through the proxy. local is the address to connect to; stop
// ends it. The error channel gives one error when it ends by itself, or is closed.
func (c *Client) PortForward(ctx context.Context, t Target, port int) (local string, stop func(), ended <-chan error, err error) {
	fwd, config, err := c.forward()
	if err != nil {
		return "", nil, nil, err
	}
	req := onto(config, c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("portforward"))
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		fwd.Close()
		return "", nil, nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, req)
	return runForward(ctx, fwd, func(stopped <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, stopped, ready, io.Discard, io.Discard)
	})
}

// runForward starts a port-forward and waits until it listens.
func runForward(ctx context.Context, fwd *forwarder, start func(<-chan struct{}, chan struct{}) (*portforward.PortForwarder, error)) (string, func(), <-chan error, error) {
	stopped, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	pf, err := start(stopped, ready)
	if err != nil {
		fwd.Close()
		return "", nil, nil, err
	}
	go func() {
		if err := pf.ForwardPorts(); err != nil {
			ended <- err
		}
		close(ended)
		fwd.Close()
	}()
	stop := sync.OnceFunc(func() { close(stopped) })
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, nil, err
	case <-ctx.Done():
		stop()
		return "", nil, nil, ctx.Err()
	}
	ports, err := pf.GetPorts()
	if err != nil {
		stop()
		return "", nil, nil, err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), stop, ended, nil
}

// onto points a request at the configuration's host.
func onto(config *rest.Config, req *rest.Request) *url.URL {
	u := req.URL()
	host, err := url.Parse(config.Host)
	if err == nil {
		u.Host = host.Host
	}
	return u
}

// noProxy keeps the environment's HTTP proxy out of the way.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// forward gives a forwarder to the proxy, and a configuration that goes through it.
func (c *Client) forward() (*forwarder, *rest.Config, error) {
	fwd, err := newForwarder(c.opts.Dial, c.opts.Address)
	if err != nil {
		return nil, nil, err
	}
	config := rest.CopyConfig(c.config)
	config.Host, config.Dial = "https://"+fwd.listener.Addr().String(), nil
	config.Proxy = noProxy
	return fwd, config, nil
}
