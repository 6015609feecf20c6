package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// streamServer serves exec, attach and port-forward over SPDY and WebSocket on a
// loopback port of the node; the kubelet passes the API server's requests on to it.
type streamServer struct {
	streaming.Server
	http *http.Server
	done chan struct{}
}

func startStreaming(r *Runtime) (*streamServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("streaming server: %w (is the loopback device up?)", err)
	}
	cfg := streaming.DefaultConfig
	cfg.Addr = l.Addr().String()
	cfg.BaseURL = &url.URL{Scheme: "http", Host: cfg.Addr, Path: "/"}
	srv, err := streaming.NewServer(cfg, streams{r})
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("streaming server: %w", err)
	}
	s := &streamServer{Server: srv, http: &http.Server{Handler: srv}, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("streaming server ended: exec, attach and port-forward are gone", "error", err)
		}
	}()
	return s, nil
}

func (s *streamServer) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// Exec returns the URL at which the command will run once a client connects.
func (r *Runtime) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, _, err := r.running(req.GetContainerId()); err != nil {
		return nil, err
	}
	return r.stream.GetExec(req)
}

func (r *Runtime) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if _, _, err := r.running(req.GetContainerId()); err != nil {
		return nil, err
	}
	return r.stream.GetAttach(req)
}

func (r *Runtime) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	r.mu.Lock()
	s := r.sandboxes[req.GetPodSandboxId()]
	ready := s != nil && s.ready
	r.mu.Unlock()
	if s == nil {
		return nil, notFound("pod sandbox", req.GetPodSandboxId())
	}
	if !ready {
		return nil, fmt.Errorf("pod sandbox %s has been stopped", req.GetPodSandboxId())
	}
	return r.stream.GetPortForward(req)
}

// streams is what the streaming server calls.
type streams struct{ r *Runtime }

func (s streams) Exec(ctx context.Context, id string, argv []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	cmd := command{argv: argv, tty: tty, stdin: in, resize: resize}
	// A nil WriteCloser must not become a Writer that is not nil.
	if out != nil {
		cmd.stdout = out
	}
	if errOut != nil {
		cmd.stderr = errOut
	}
	code, err := s.r.exec(ctx, id, cmd)
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command exited with %d", code), Code: int(code)}
	}
	return nil
}

// Attach joins the container's streams until it ends or the client leaves.
func (s streams) Attach(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	c, run, err := s.r.running(id)
	if err != nil {
		return err
	}
	var stdout, stderr io.Writer
	if out != nil {
		stdout = out
	}
	if errOut != nil {
		stderr = errOut
	}
	cl := run.io.out.attach(stdout, stderr)
	defer run.io.out.detach(cl)
	if run.io.terminal != nil && resize != nil {
		go func() {
			for size := range resize {
				resizeTerminal(run.io.terminal, size.Width, size.Height)
			}
		}()
	}
	input := make(chan error, 1)
	if in != nil {
		go func() { input <- run.io.feed(in, c.cfg.GetStdinOnce()) }()
	}
	for {
		select {
		case <-cl.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-input:
			if err != nil {
				return err
			}
			if stdout == nil && stderr == nil {
				return nil
			}
			input = nil // its input is over; its output goes on
		}
	}
}

// PortForward connects the stream to a port of the pod's loopback device.
func (s streams) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	conn, err := s.r.dialPod(ctx, sandboxID, port)
	if err != nil {
		return fmt.Errorf("forward port %d: %w", port, err)
	}
	defer conn.Close()
	return relay(ctx, conn, stream)
}
