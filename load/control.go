package load

import (
	"context"
	"io"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/kube"
	"shakedown.dev/shakedown/teleport/ssh"
)

// echoCommand gives back each line it is sent, until its input ends.
const echoCommand = "exec cat"

// DirectNode is the preferred control: SSH straight to the port of an agent that listens (join: direct in the
// agents chart), beside every proxy and tunnel. It shares with the load the generator, the pod network, the
// agents' program and certificates; not the proxies.
func DirectNode(client *ssh.Client, address string, node history.Agent) Control {
	return Control{
		Target: "ssh " + node.Pod.Name + " " + node.Host + " at " + address,
		Open: func(ctx context.Context) (io.ReadWriteCloser, error) {
			// Without a terminal, so that Teleport records nothing of it.
			return client.OpenDirect(ctx, address, node.UUID, ssh.Target{Node: node.UUID}, ssh.Start{Command: echoCommand})
		},
		Handshake: func(ctx context.Context) error { return client.Handshake(ctx, address, node.UUID) },
	}
}

// PodShell is the control where no agent listens: a shell in an agent's pod through the API server. It shares the
// generator, the node and the container with the load, but goes by the API server and the kubelet instead of the
// pod network: an outage of the API server is an outage of the control arm too.
func PodShell(config *rest.Config, t kube.Target) Control {
	return Control{
		Target: "exec " + t.Pod,
		Open:   func(ctx context.Context) (io.ReadWriteCloser, error) { return podShell(ctx, config, t) },
	}
}

// podStream is a remote command as a stream of lines.
type podStream struct {
	io.Reader
	io.Writer
	end context.CancelFunc
}

func (p podStream) Close() error {
	p.end()
	return nil
}

func podShell(_ context.Context, config *rest.Config, t kube.Target) (io.ReadWriteCloser, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	req := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: t.Container, Command: []string{"cat"}, Stdin: true, Stdout: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", req.URL().String())
	if err != nil {
		return nil, err
	}
	// It outlives the call that opened it; Close ends it.
	ctx, end := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW})
		if err == nil {
			err = io.EOF
		}
		outW.CloseWithError(err)
		inR.CloseWithError(err)
		end()
	}()
	return podStream{outR, inW, end}, nil
}
