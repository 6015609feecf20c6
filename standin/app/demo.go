package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"shakedown.dev/shakedown/internal/loopback"
	"shakedown.dev/shakedown/standin/flags"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/tctl"
)

const demoCluster = "demo.standin.test"

// cluster is what the demo runs: a folder, addresses, and two processes' worth of
// services in this one.
type cluster struct {
	dir, kubeconfig        string
	auth, web, ssh, tunnel string
	kube, kubeService      string
	nodeA                  string
	login                  string
	streams                Streams
	toy                    bool
	running                sync.WaitGroup
	main, agent            *daemon
}

// demo is `standin demo`: auth, proxy, Kubernetes and two nodes on loopback, and
// the lines to try. It ends with Ctrl-C.
func demo(ctx context.Context, args []string, s Streams) error {
	c := &cluster{streams: s, kubeconfig: os.Getenv("KUBECONFIG")}
	once := false
	rest, err := flags.Parse(args, []flags.Flag{
		{Name: "dir", Text: &c.dir}, {Name: "kubeconfig", Text: &c.kubeconfig}, {Name: "once", Switch: &once},
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: standin demo [--dir DIR] [--kubeconfig FILE]", errUsage)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.prepare(); err != nil {
		return err
	}
	return c.run(ctx, once)
}

func (c *cluster) prepare() error {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "standin-demo-")
		if err != nil {
			return err
		}
		c.dir = dir
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	c.login = me.Username
	addrs := []*string{&c.auth, &c.web, &c.ssh, &c.tunnel, &c.kube, &c.kubeService, &c.nodeA}
	free, err := loopback.Addresses(len(addrs))
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		*addr = free[i]
	}
	if c.kubeconfig == "" {
		c.toy = true
		c.kubeconfig = filepath.Join(c.dir, "toy-kubeconfig")
	}
	return errors.Join(os.MkdirAll(c.dir, 0o700), c.write("main.yaml", c.mainYAML()), c.write("agent.yaml", c.agentYAML()), c.write("resources.yaml", c.resources()))
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, text string) error {
	return os.WriteFile(c.path(name), []byte(text), 0o600)
}

func (c *cluster) mainYAML() string {
	return fmt.Sprintf(`version: v3
teleport:
  nodename: node-a
  data_dir: %s
  log: {severity: WARN}
auth_service:
  enabled: yes
  listen_addr: %s
  cluster_name: %s
  tokens: ["node:demo"]
  proxy_listener_mode: separate
proxy_service:
  enabled: yes
  web_listen_addr: %s
  listen_addr: %s
  tunnel_listen_addr: %s
  kube_listen_addr: %s
  public_addr: %s
ssh_service: {enabled: yes, listen_addr: %s}
kubernetes_service: {enabled: yes, listen_addr: %s, kube_cluster_name: demo, kubeconfig_file: %s}
`, c.path("main"), c.auth, demoCluster, c.web, c.ssh, c.tunnel, c.kube, c.web, c.nodeA, c.kubeService, c.kubeconfig)
}

func (c *cluster) agentYAML() string {
	return fmt.Sprintf(`version: v3
teleport:
  nodename: node-b
  data_dir: %s
  auth_token: demo
  proxy_server: %s
  log: {severity: WARN}
auth_service: {enabled: no}
proxy_service: {enabled: no}
ssh_service: {enabled: yes}
`, c.path("agent"), c.web)
}

func (c *cluster) resources() string {
	return fmt.Sprintf(`kind: role
version: v5
metadata: {name: demo}
spec:
  options: {forward_agent: true, max_session_ttl: 30h}
  allow:
    logins: [%q, root]
    node_labels: {'*': '*'}
    kubernetes_labels: {'*': '*'}
    kubernetes_groups: [system:masters]
    rules: [{resources: [event, session], verbs: [list, read]}]
---
kind: user
version: v2
metadata: {name: demo}
spec: {roles: [demo]}
`, c.login)
}

func (c *cluster) run(ctx context.Context, once bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); c.running.Wait() }()
	if c.toy {
		if err := c.startToy(ctx); err != nil {
			return err
		}
	}
	failed := make(chan error, 2)
	var err error
	if c.main, err = c.start(ctx, "main.yaml", failed); err != nil {
		return err
	}
	if err := c.ready(ctx, c.main, failed); err != nil {
		return err
	}
	if c.agent, err = c.start(ctx, "agent.yaml", failed); err != nil {
		return err
	}
	if err := c.ready(ctx, c.agent, failed); err != nil {
		return err
	}
	// The proxy's list of nodes is a moment old; the lines are to work at once.
	if err := sleep(ctx, 300*time.Millisecond); err != nil {
		return nil
	}
	if err := c.identities(ctx); err != nil {
		return err
	}
	c.tell()
	if once {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (c *cluster) start(ctx context.Context, file string, failed chan<- error) (*daemon, error) {
	d, err := newDaemon(startOptions{Config: c.path(file), Insecure: true}, getenv, c.streams)
	if err != nil {
		return nil, err
	}
	c.running.Go(func() {
		if err := d.run(ctx); err != nil {
			failed <- err
		}
	})
	return d, nil
}

// ready waits until every service of d has announced itself.
func (c *cluster) ready(ctx context.Context, d *daemon, failed <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the demo's services did not start in time: %w", ctx.Err())
		case <-tick.C:
			if d.health.State() == process.OK {
				return nil
			}
		}
	}
}

func (c *cluster) tctl(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	err := tctl.Run(ctx, append([]string{"-c", c.path("main.yaml")}, args...), tctl.Streams{In: strings.NewReader(""), Out: &out, Err: c.streams.Err})
	return out.String(), err
}

// identities makes a user's files for ssh and kubectl.
func (c *cluster) identities(ctx context.Context) error {
	steps := [][]string{
		{"create", "-f", c.path("resources.yaml")},
		{"auth", "sign", "--user=demo", "--format=openssh", "--out=" + c.path("id"), "--overwrite"},
		{"auth", "sign", "--user=demo", "--format=file", "--out=" + c.path("identity"), "--overwrite"},
		{"auth", "sign", "--user=demo", "--format=kubernetes", "--out=" + c.path("kubeconfig"), "--proxy=https://" + c.kube, "--overwrite"},
	}
	for _, step := range steps {
		if _, err := c.tctl(ctx, step...); err != nil {
			return fmt.Errorf("tctl %s: %w", strings.Join(step[:2], " "), err)
		}
	}
	hosts, err := c.tctl(ctx, "auth", "export", "--type=host")
	if err != nil {
		return err
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(hosts, "@cert-authority "), " ")
	return errors.Join(c.write("known_hosts", "@cert-authority * "+key), c.write("ssh_config", c.sshConfig()))
}

func (c *cluster) sshConfig() string {
	_, port, _ := net.SplitHostPort(c.ssh)
	common := fmt.Sprintf("  User %s\n  IdentityFile %s\n  CertificateFile %s\n  UserKnownHostsFile %s\n  IdentitiesOnly yes\n",
		c.login, c.path("id"), c.path("id-cert.pub"), c.path("known_hosts"))
	return "Host node-a node-b\n  Port 3022\n" + common +
		fmt.Sprintf("  ProxyCommand ssh -F %s -s proxy proxy:%%h:0@%s\n", c.path("ssh_config"), demoCluster) +
		fmt.Sprintf("Host proxy\n  HostName 127.0.0.1\n  Port %s\n  HostKeyAlias localhost\n", port) + common
}

func (c *cluster) tell() {
	out, self := c.streams.Out, os.Args[0]
	if strings.Contains(self, "go-build") {
		self = "go run ./standin/cmd/standin"
	}
	fmt.Fprintf(out, "A stand-in for Teleport runs on loopback: auth, proxy and two nodes. Files are in %s\n\n", c.dir)
	fmt.Fprintf(out, "  ssh -F %s node-a            # which the proxy dials\n", c.path("ssh_config"))
	fmt.Fprintf(out, "  ssh -F %s node-b            # over its reverse tunnel\n", c.path("ssh_config"))
	fmt.Fprintf(out, "  kubectl --kubeconfig %s get pods -A\n", c.path("kubeconfig"))
	if c.toy {
		fmt.Fprintln(out, "      (a toy API server with two pods to look at; for a real one: --kubeconfig FILE)")
	}
	fmt.Fprintf(out, "  %s tctl -c %s nodes ls\n", self, c.path("main.yaml"))
	fmt.Fprintf(out, "  %s fault --data-dir %s set stall --every 2\n\nCtrl-C ends it.\n", self, c.path("main"))
}
