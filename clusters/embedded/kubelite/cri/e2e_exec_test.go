package cri

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestE2EExecSync(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	id := n.start(sb, pod, config("main", `echo mark > /mark; sleep 1000`, security(func(s *runtimeapi.LinuxContainerSecurityContext) {
		s.Capabilities = &runtimeapi.Capability{DropCapabilities: []string{"ALL"}}
		s.NoNewPrivs = true
	}), func(c *runtimeapi.ContainerConfig) {
		c.WorkingDir = "/usr/share"
		c.Envs = []*runtimeapi.KeyValue{{Key: "FROM_POD", Value: []byte("pod")}}
	}))
	ctx := context.Background()
	waitFor(t, func() bool { _, _, err := n.ExecSync(ctx, id, []string{"test", "-e", "/mark"}, 0); return err == nil })
	out, errOut, err := n.ExecSync(ctx, id, []string{"sh", "-c", `cat /mark; pwd; hostname; echo $FROM_POD; echo err >&2; grep -h 'CapEff\|NoNew' /proc/self/status | cut -f2; ls -x /proc/self/fd; exit 4`}, 0)
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 4 {
		t.Errorf("err %v, want exit 4", err)
	}
	if want := "mark\n/usr/share\npod1\npod\n0000000000000000\n1\n0  1  2  3\n"; string(out) != want || string(errOut) != "err\n" {
		t.Errorf("out %q, want %q; err %q", out, want, errOut)
	}
	if _, _, err := n.ExecSync(ctx, id, []string{"nope"}, 0); err == nil || !strings.Contains(err.Error(), "executable file not found in $PATH") {
		t.Errorf("unknown program: %v", err)
	}
	_, _, err = n.ExecSync(ctx, id, []string{"sh", "-c", "sleep 4321 & sleep 4321"}, 300*time.Millisecond)
	if !errors.Is(err, remote.ErrCommandTimedOut) {
		t.Errorf("timeout: %v", err)
	}
	for _, pid := range pids() {
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.Contains(b, []byte("4321")) {
			t.Errorf("process %d %q outlives its timeout", pid, b)
		}
	}
	// A process left in the background holds the pipes: the command still ends.
	if out, _, err := n.ExecSync(ctx, id, []string{"sh", "-c", "sleep 5 & echo done"}, 4*time.Second); err != nil || string(out) != "done\n" {
		t.Errorf("background: %q %v", out, err)
	}
	must(t, n.StopContainer(ctx, id, 0))
	if _, _, err := n.ExecSync(ctx, id, []string{"true"}, 0); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("exec in an ended container: %v", err)
	}
}

// stream runs a remote command over the protocol named, as kubectl does.
func (n *node) stream(protocol, address string, opts remotecommand.StreamOptions) error {
	n.t.Helper()
	u, err := url.Parse(address)
	must(n.t, err)
	var e remotecommand.Executor
	if protocol == "SPDY" {
		e, err = remotecommand.NewSPDYExecutor(&rest.Config{Host: u.Host}, http.MethodPost, u)
	} else {
		// Version 5, kubectl's, ends at the API server, which speaks SPDY to nodes.
		e, err = remotecommand.NewWebSocketExecutorForProtocols(&rest.Config{Host: u.Host}, http.MethodGet, address, "v4.channel.k8s.io")
	}
	must(n.t, err)
	return e.StreamWithContext(context.Background(), opts)
}

func TestE2EStreams(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	ctx := context.Background()
	id := n.start(sb, pod, config("main", `sleep 1000`))
	for _, protocol := range []string{"SPDY", "WebSocket"} {
		t.Run(protocol+": a command with all streams and a code", func(t *testing.T) {
			resp, err := n.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"sh", "-c", "head -c 1048576; echo err >&2; exit 7"}, Stdin: true, Stdout: true, Stderr: true})
			must(t, err)
			var out, errOut bytes.Buffer
			in := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
			err = n.stream(protocol, resp.Url, remotecommand.StreamOptions{Stdin: strings.NewReader(in), Stdout: &out, Stderr: &errOut})
			var exit utilexec.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
				t.Errorf("err %v, want exit 7", err)
			}
			if out.String() != in || errOut.String() != "err\n" {
				t.Errorf("%d bytes came back, want %d; stderr %q", out.Len(), len(in), &errOut)
			}
		})
		t.Run(protocol+": a terminal, resized", func(t *testing.T) {
			resp, err := n.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"sh"}, Tty: true, Stdin: true, Stdout: true})
			must(t, err)
			in, w := io.Pipe()
			var out syncBuffer
			sizes := &oneSize{next: make(chan remotecommand.TerminalSize, 1)}
			sizes.next <- remotecommand.TerminalSize{Width: 91, Height: 37}
			done := make(chan error, 1)
			go func() {
				done <- n.stream(protocol, resp.Url, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true, TerminalSizeQueue: sizes})
			}()
			io.WriteString(w, "PS1=; tty; until [ \"$(stty size)\" = '37 91' ]; do sleep 0.05; done; echo si''zed\n")
			waitFor(t, func() bool { return strings.Contains(out.String(), "sized\r\n") })
			io.WriteString(w, "\x04")
			must(t, <-done)
			if !strings.Contains(out.String(), "/dev/pts/0\r\n") {
				t.Errorf("terminal: %q", out.String())
			}
		})
		t.Run(protocol+": a program lets go of its terminal before it exits", func(t *testing.T) {
			resp, err := n.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"sh", "-c", "exec 0<&- 1>&- 2>&-; sleep 0.3; exit 5"}, Tty: true, Stdin: true, Stdout: true})
			must(t, err)
			in, w := io.Pipe()
			defer w.Close()
			err = n.stream(protocol, resp.Url, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard, Tty: true})
			var exit utilexec.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 5 {
				t.Errorf("err %v, want exit 5, not that of a hangup", err)
			}
		})
	}
}

type oneSize struct {
	next chan remotecommand.TerminalSize
}

func (o *oneSize) Next() *remotecommand.TerminalSize {
	s, ok := <-o.next
	if !ok {
		return nil
	}
	return &s
}

func TestE2EAttach(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, pod := n.pod()
	ctx := context.Background()
	t.Run("stdin once: the client's end is the container's", func(t *testing.T) {
		id := n.start(sb, pod, config("once", `cat; echo over`, func(c *runtimeapi.ContainerConfig) { c.Stdin, c.StdinOnce = true, true }))
		resp, err := n.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true})
		must(t, err)
		var out bytes.Buffer
		must(t, n.stream("SPDY", resp.Url, remotecommand.StreamOptions{Stdin: strings.NewReader("hello\n"), Stdout: &out, Stderr: io.Discard}))
		if st := n.ends(id); st.ExitCode != 0 {
			t.Errorf("exit %d", st.ExitCode)
		}
		if out.String() != "hello\nover\n" || n.log(id) != "hello\nover\n" {
			t.Errorf("client saw %q, log has %q", out.String(), n.log(id))
		}
	})
	t.Run("a terminal", func(t *testing.T) {
		id := n.start(sb, pod, config("tty", `while read x; do echo "got $x"; [ $x = end ] && exit 9; done`, func(c *runtimeapi.ContainerConfig) { c.Stdin, c.Tty = true, true }))
		resp, err := n.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Tty: true})
		must(t, err)
		in, w := io.Pipe()
		var out syncBuffer
		done := make(chan error, 1)
		go func() {
			done <- n.stream("SPDY", resp.Url, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true})
		}()
		io.WriteString(w, "one\n")
		waitFor(t, func() bool { return strings.Contains(out.String(), "got one\r\n") })
		io.WriteString(w, "end\n")
		must(t, <-done)
		if st := n.ends(id); st.ExitCode != 9 {
			t.Errorf("exit %d, want 9", st.ExitCode)
		}
	})
}

func TestE2EPortForward(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	sb, _ := n.pod()
	l := n.listenInPod(sb, "127.0.0.1:8099")
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "from the pod") }))
	resp, err := n.PortForward(context.Background(), &runtimeapi.PortForwardRequest{PodSandboxId: sb})
	must(t, err)
	u, err := url.Parse(resp.Url)
	must(t, err)
	tr, up, err := spdy.RoundTripperFor(&rest.Config{Host: u.Host})
	must(t, err)
	stop, ready := make(chan struct{}), make(chan struct{})
	defer close(stop)
	var errOut syncBuffer
	f, err := portforward.New(spdy.NewDialer(up, &http.Client{Transport: tr}, http.MethodPost, u), []string{"0:8099", "0:1"}, stop, ready, io.Discard, &errOut)
	must(t, err)
	go f.ForwardPorts()
	<-ready
	ports, err := f.GetPorts()
	must(t, err)
	got, err := http.Get("http://127.0.0.1:" + strconv.Itoa(int(ports[0].Local)))
	must(t, err)
	body, _ := io.ReadAll(got.Body)
	if string(body) != "from the pod" {
		t.Errorf("got %q", body)
	}
	if _, err := http.Get("http://127.0.0.1:" + strconv.Itoa(int(ports[1].Local))); err == nil {
		t.Error("a port that nobody listens on answers")
	}
}
