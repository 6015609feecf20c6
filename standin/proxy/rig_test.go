package proxy

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
)

const (
	proxyUUID = "aaaaaaaa-0000-4000-8000-000000000001"
	nodeUUID  = "bbbbbbbb-0000-4000-8000-000000000001"
)

// rig is a cluster in this process: an auth in memory, one proxy, one node behind a tunnel.
type rig struct {
	t      testing.TB
	auth   *sshtest.Auth
	login  string
	proxy  *service
	user   ssh.Signer
	hostCA ssh.PublicKey

	proxyFaults, nodeFaults *faults.Registry
	proxyDir, nodeDir       string
	metrics                 *prometheus.Registry
	node                    process.Service
	forwardAgent            bool // ask for agent forwarding before the subsystem
}

type option func(*rig, *config.Config)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, auth: sshtest.NewAuth(t, me.Username), login: me.Username, metrics: prometheus.NewRegistry(),
		proxyFaults: faults.New(nil), nodeFaults: faults.New(nil), proxyDir: t.TempDir(), nodeDir: t.TempDir()}
	r.hostCA = r.auth.Hosts.Keys()[0]
	r.user = r.auth.Users.User("alice", []string{me.Username, "root"}, "load")
	cfg := mustConfig(t, fmt.Sprintf("version: v3\nteleport: {data_dir: %s}\nproxy_service: {enabled: yes, web_listen_addr: '127.0.0.1:0', listen_addr: '127.0.0.1:0', tunnel_listen_addr: '127.0.0.1:0', kube_listen_addr: '127.0.0.1:0'}\n", r.proxyDir))
	for _, o := range options {
		o(r, cfg)
	}
	r.startProxy(cfg)
	r.node = r.startNode(nodeUUID, "web-1")
	return r
}

func mustConfig(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("teleport.yaml", []byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (r *rig) env(cfg *config.Config, uuid, name string, role types.SystemRole, reg *faults.Registry, metrics prometheus.Registerer) process.Env {
	client := r.auth.Client(uuid, name, role)
	sshtest.TLSIdentity(client, r.auth.Hosts.TLS(pkix.Name{CommonName: uuid + "." + sshtest.Cluster}, uuid+"."+sshtest.Cluster))
	level := slog.LevelError + 4
	if os.Getenv("STANDIN_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return process.Env{
		Config: cfg, Auth: client, Behaviour: process.Behaviours()[0], Faults: reg, Metrics: metrics, Scale: 20, Insecure: true,
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("who", name),
		Heartbeat: func(string, error) {},
	}
}

func (r *rig) startProxy(cfg *config.Config) {
	r.t.Helper()
	svc, err := New(r.env(cfg, proxyUUID, "proxy-1", types.RoleProxy, r.proxyFaults, r.metrics))
	if err != nil {
		r.t.Fatal(err)
	}
	r.proxy = svc.(*service)
	if err := svc.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { svc.Close() })
}

func (r *rig) startNode(uuid, name string) process.Service {
	r.t.Helper()
	cfg := mustConfig(r.t, fmt.Sprintf("version: v3\nteleport: {data_dir: %s, proxy_server: '%s'}\nssh_service: {enabled: yes, labels: {env: test}}\nproxy_service: {enabled: no}\nauth_service: {enabled: no}\n", r.nodeDir, r.proxy.addrs.web))
	svc, err := node.New(r.env(cfg, uuid, name, types.RoleNode, r.nodeFaults, prometheus.NewRegistry()))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := svc.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { svc.Close() })
	r.eventually("tunnel of "+name, func() bool {
		conn, err := r.proxy.tunnels.Dial(uuid, "node", "@local-node")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	r.eventually(name+" in the directory", func() bool {
		dest, err := r.proxy.router.resolve(r.t.Context(), uuid, "0")
		return err == nil && dest.server != nil
	})
	return svc
}

func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never happened: %s", what)
		}
	}
}

// clientConfig authenticates as alice and trusts the cluster's hosts.
func (r *rig) clientConfig() *ssh.ClientConfig {
	checker := &ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool {
		return string(key.Marshal()) == string(r.hostCA.Marshal())
	}}
	return &ssh.ClientConfig{User: r.login, Auth: []ssh.AuthMethod{ssh.PublicKeys(r.user)}, HostKeyCallback: checker.CheckHostKey, Timeout: 20 * time.Second}
}

// dialProxy connects to the proxy's web port by TLS routing.
func (r *rig) dialProxy() (*ssh.Client, error) {
	raw, err := tls.Dial("tcp", r.proxy.addrs.web, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"teleport-proxy-ssh"}})
	if err != nil {
		return nil, err
	}
	conn, chans, reqs, err := ssh.NewClientConn(raw, "localhost:0", r.clientConfig())
	if err != nil {
		raw.Close()
		return nil, err
	}
	return ssh.NewClient(conn, chans, reqs), nil
}

// dialNode goes through the proxy's subsystem to the node, as the harness does.
func (r *rig) dialNode(outer *ssh.Client, target string) (*ssh.Client, error) {
	s, err := outer.NewSession()
	if err != nil {
		return nil, err
	}
	in, _ := s.StdinPipe()
	out, _ := s.StdoutPipe()
	errs, _ := s.StderrPipe()
	if r.forwardAgent {
		if err := agent.RequestAgentForwarding(s); err != nil {
			return nil, err
		}
	}
	if err := s.RequestSubsystem("proxy:" + target); err != nil {
		reason, _ := io.ReadAll(errs)
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(reason)))
	}
	host, _, _ := strings.Cut(target, "@")
	conn, chans, reqs, err := ssh.NewClientConn(&pipeConn{Reader: out, WriteCloser: in, outer: outer, session: s}, host, r.clientConfig())
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(conn, chans, reqs), nil
}

type pipeConn struct {
	io.Reader
	io.WriteCloser
	outer   *ssh.Client
	session *ssh.Session
}

func (p *pipeConn) Close() error                   { return p.session.Close() }
func (p *pipeConn) LocalAddr() net.Addr            { return p.outer.LocalAddr() }
func (p *pipeConn) RemoteAddr() net.Addr           { return p.outer.RemoteAddr() }
func (*pipeConn) SetDeadline(time.Time) error      { return nil }
func (*pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (*pipeConn) SetWriteDeadline(time.Time) error { return nil }

// terminal is an interactive session that types lines.
type terminal struct {
	outer, inner *ssh.Client
	*ssh.Session
	in  io.WriteCloser
	out *lines
}

// lines gathers output.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// open starts command, or a shell, on a terminal without echo.
func (r *rig) open(command string) *terminal {
	r.t.Helper()
	t, err := r.tryOpen(command)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) tryOpen(command string) (*terminal, error) {
	outer, err := r.dialProxy()
	if err != nil {
		return nil, err
	}
	inner, err := r.dialNode(outer, nodeUUID+":0")
	if err != nil {
		outer.Close()
		return nil, err
	}
	return r.startOn(outer, inner, command)
}

// terminalOn starts command on a terminal of an open connection.
func (r *rig) terminalOn(outer, inner *ssh.Client, command string) *terminal {
	r.t.Helper()
	t, err := r.startOn(outer, inner, command)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) startOn(outer, inner *ssh.Client, command string) (*terminal, error) {
	s, err := inner.NewSession()
	if err != nil {
		return nil, err
	}
	t := &terminal{outer: outer, inner: inner, Session: s, out: &lines{}}
	s.Stdout = t.out
	t.in, _ = s.StdinPipe()
	if err := s.RequestPty("xterm", 24, 80, ssh.TerminalModes{ssh.ECHO: 0}); err != nil {
		return nil, err
	}
	if command == "" {
		return t, s.Shell()
	}
	return t, s.Start(command)
}

// agentKey is alice's key and certificate for an agent.
func (r *rig) agentKey() agent.AddedKey {
	r.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		r.t.Fatal(err)
	}
	return agent.AddedKey{PrivateKey: private, Certificate: r.auth.Users.Certify("alice", signer.PublicKey(), []string{r.login}, "load")}
}

// say types a line and waits until the output holds want.
func (t *terminal) say(r *rig, line, want string) {
	r.t.Helper()
	io.WriteString(t.in, line+"\n")
	r.eventually(fmt.Sprintf("answer %q to %q", want, line), func() bool { return strings.Contains(t.out.String(), want) })
}
