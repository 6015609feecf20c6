package boot

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/component-base/version"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/node"
)

// serveControl answers the control socket, one request a connection.
func (c *cluster) serveControl(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			c.fail(fmt.Errorf("control socket: %w", err))
			return
		}
		go c.serve(conn.(*net.UnixConn))
	}
}

func (c *cluster) serve(conn *net.UnixConn) {
	defer conn.Close()
	if err := ownerOnly(conn); err != nil {
		answer(conn, response{Error: err.Error()}, nil)
		return
	}
	req, files, err := receive(conn)
	if err != nil {
		answer(conn, response{Error: err.Error()}, nil)
		return
	}
	switch req.Op {
	case "dial":
		c.dial(conn, req)
	case "spawn":
		c.spawnGuest(conn, req, files)
	case "down":
		answer(conn, response{OK: true}, nil)
		c.once.Do(func() { close(c.down) })
	default:
		answer(conn, c.reply(req), nil)
	}
}

// reply handles the requests that are one question and one answer.
func (c *cluster) reply(req request) response {
	switch req.Op {
	case "status":
		return response{OK: true, Status: c.status()}
	case "kubeconfig":
		data, err := c.creds.outside(c.spec.Name, c.spec.APIPort)
		return response{OK: err == nil, Kubeconfig: string(data), Error: text(err)}
	case "node":
		err := c.operate(req.Node, req.Action, req.From)
		return response{OK: err == nil, Error: text(err)}
	case "image":
		err := c.images.add(ImageSource{Name: req.Name, Source: req.Source})
		return response{OK: err == nil, Error: text(err)}
	}
	return response{Error: fmt.Sprintf("operation %q: status, kubeconfig, dial, spawn, node, image or down", req.Op)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (c *cluster) status() *status {
	s := &status{
		Name: c.spec.Name, PID: 1, Started: c.started, Starting: !c.ready.Load(), Version: version.Get().GitVersion,
		APIServer:   fmt.Sprintf("https://127.0.0.1:%d", c.spec.APIPort),
		ServiceCIDR: serviceCIDR, PodCIDR: podCIDR, DNS: dnsServiceIP,
		Limits: nodeLimits(), Spec: c.spec, Nodes: []nodeStatus{},
	}
	c.nodesMu.Lock()
	defer c.nodesMu.Unlock()
	for _, n := range c.nodes {
		s.Nodes = append(s.Nodes, nodeStatus{Name: n.plan.name, Address: n.plan.address.String(), PodCIDR: n.plan.pods.String(), State: n.said()})
	}
	for i := 1; i <= c.spec.HollowNodes; i++ {
		s.Nodes = append(s.Nodes, nodeStatus{Name: fmt.Sprintf("hollow%d", i), Address: apiAddress, State: string(nodeRunning), Hollow: true})
	}
	return s
}

// ownerOnly refuses everybody but the owner of the cluster: uid 0 as seen from
// inside. An abstract socket has no file mode that could do it.
func ownerOnly(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if cred.Uid != 0 {
		return errors.New("this cluster belongs to another user")
	}
	return nil
}

// receive reads one line and the descriptors that came with its first byte.
func receive(conn *net.UnixConn) (request, []int, error) {
	var req request
	buf, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return req, nil, fmt.Errorf("request: %w", err)
	}
	files, err := descriptors(oob[:oobn])
	if err != nil {
		return req, nil, err
	}
	line := string(buf[:n])
	if !strings.HasSuffix(line, "\n") {
		rest, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return req, files, fmt.Errorf("request: %w", err)
		}
		line += rest
	}
	if err := json.Unmarshal([]byte(line), &req); err != nil {
		return req, files, fmt.Errorf("request: %w", err)
	}
	return req, files, nil
}

// descriptors takes the file descriptors out of a control message.
func descriptors(oob []byte) ([]int, error) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	var out []int
	for i := range msgs {
		fds, err := syscall.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // credentials or the like
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
		}
		out = append(out, fds...)
	}
	return out, nil
}

// answer writes one line, with descriptors on its first byte.
func answer(conn *net.UnixConn, r response, files []int) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	var oob []byte
	if len(files) > 0 {
		oob = syscall.UnixRights(files...)
	}
	// A client that went away needs no answer.
	_, _, _ = conn.WriteMsgUnix(append(line, '\n'), oob, nil)
}

// dialTimeout is longer than the kernel's first SYN retries and shorter than
// what a caller takes for a hang; callers with less patience close their end.
const dialTimeout = 30 * time.Second

// dial connects inside the cluster's network and hands the socket over: a
// socket keeps the network namespace it was made in.
func (c *cluster) dial(conn *net.UnixConn, req request) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	go func() { // the caller closing its end is its way to give up
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	far, err := clusterDialer().DialContext(ctx, req.Network, req.Address)
	if err != nil {
		answer(conn, response{Error: err.Error(), Errno: errno(err)}, nil)
		return
	}
	defer far.Close()
	raw, err := far.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { answer(conn, response{OK: true}, []int{int(fd)}) })
	}
	if err != nil {
		answer(conn, response{Error: err.Error()}, nil)
	}
}

func errno(err error) int {
	var e syscall.Errno
	if errors.As(err, &e) {
		return int(e)
	}
	return 0
}

// clusterDialer resolves names with the cluster's own DNS.
func clusterDialer() *net.Dialer {
	return &net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(apiAddress, "53"))
		},
	}}
}

// dnsAnswers says whether the cluster's DNS knows the API server's Service.
func dnsAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := clusterDialer().Resolver.LookupHost(ctx, "kubernetes.default.svc."+clusterDomain+".")
	return err
}

// nodeLimits is what the first node says: they are all on the same machine.
func nodeLimits() limits {
	l, err := node.ReadLimits(nodeDir(planNode(1).name))
	if err != nil {
		return limits{Why: "not known: " + err.Error()}
	}
	return limits{MemoryCPU: l.Hold, Why: l.Why}
}
