package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/tunnel"
)

const (
	directDialTimeout = 30 * time.Second
	defaultNodePort   = "3022"
)

// router finds the node a user wants and opens a connection to it.
type router struct {
	env     process.Env
	servers *directory
	cluster *node.ClusterCache
	tunnels *tunnel.Server

	sessions prometheus.Gauge
	attempts prometheus.Counter
	failed   prometheus.Counter
	missing  prometheus.Gauge
}

func newRouter(env process.Env, servers *directory, cluster *node.ClusterCache, tunnels *tunnel.Server) *router {
	return &router{
		env: env, servers: servers, cluster: cluster, tunnels: tunnels,
		missing:  recorder.Gauge(env.Metrics, "proxy_missing_ssh_tunnels", "Number of missing SSH tunnels"),
		sessions: recorder.Gauge(env.Metrics, "proxy_ssh_sessions_total", "Number of active sessions through this proxy"),
		attempts: recorder.Counter(env.Metrics, "teleport_connect_to_node_attempts_total", "Number of SSH connection attempts to a node. Use with `failed_connect_to_node_attempts_total` to get the failure rate."),
		failed:   recorder.Counter(env.Metrics, "failed_connect_to_node_attempts_total", "Number of failed SSH connection attempts to a node. Use with `teleport_connect_to_node_attempts_total` to get the failure rate."),
	}
}

// destination is a resolved target; server is nil for a host nobody knows, which is then dialled by its name.
type destination struct {
	host, port string
	server     types.Server
}

// dial connects to a node. The connection counts as a session of this proxy until it is closed.
func (r *router) dial(ctx context.Context, user, host, port string) (net.Conn, destination, error) {
	r.attempts.Inc()
	conn, dest, err := r.tryDial(ctx, user, host, port)
	if err != nil {
		r.failed.Inc()
		return nil, dest, err
	}
	r.sessions.Inc()
	return &countedConn{Conn: conn, done: sync.OnceFunc(r.sessions.Dec)}, dest, nil
}

func (r *router) tryDial(ctx context.Context, user, host, port string) (net.Conn, destination, error) {
	key := uuid.NewString()
	if _, refuse := r.env.Faults.Active(faults.RefuseShare, key); refuse {
		r.env.Faults.Record(faults.RefuseShare, "", fmt.Sprintf("refused %s to %s:%s", user, host, port))
		r.env.Faults.Forget(key)
		return nil, destination{}, fmt.Errorf("connection to %s refused", host)
	}
	r.env.Faults.Leak(key)
	r.env.Faults.Forget(key)
	dest, err := r.resolve(ctx, host, port)
	if err != nil {
		return nil, dest, err
	}
	conn, err := r.connect(ctx, dest)
	return conn, dest, err
}

// resolve looks a host up; a UUID that is not known yet is looked for once more with fresh data.
func (r *router) resolve(ctx context.Context, host, port string) (destination, error) {
	dest := destination{host: host, port: port}
	server, err := r.lookup(host, port)
	if server == nil && err == nil && r.servers.refreshStale(ctx) {
		server, err = r.lookup(host, port)
	}
	if err != nil {
		return dest, err
	}
	if server == nil && isUUID(host) {
		return dest, fmt.Errorf("unable to locate node matching UUID-like target %s", host)
	}
	dest.server = server
	return dest, nil
}

// errAmbiguous is the text by which real clients know this case.
var errAmbiguous = errors.New("err-node-is-ambiguous")

// lookup is nil without error when nothing matches.
func (r *router) lookup(host, port string) (types.Server, error) {
	var found []types.Server
	for _, s := range r.servers.of(types.KindNode) {
		if isUUID(host) && s.GetName() == host {
			return s, nil
		}
		if matches(s, host, port) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return nil, nil
	case r.cluster.Get().RoutingStrategy == "most_recent":
		return slices.MaxFunc(found, func(a, b types.Server) int { return a.Expiry().Compare(b.Expiry()) }), nil
	case len(found) > 1:
		return nil, errAmbiguous
	}
	return found[0], nil
}

// matches: a node with a tunnel goes by its hostname only, another one also by its address and port.
func matches(s types.Server, host, port string) bool {
	if s.GetUseTunnel() {
		return host == s.GetHostname()
	}
	ip, nodePort, err := net.SplitHostPort(s.GetAddr())
	if err != nil {
		return false
	}
	return (host == ip || host == s.GetHostname()) && (port == "" || port == "0" || port == nodePort)
}

func isUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil
}

// address is what the real proxy dials, with a special one for nodes that only have a tunnel.
func (d destination) address() string {
	switch {
	case d.server == nil:
		port := d.port
		if port == "" || port == "0" {
			port = defaultNodePort
		}
		return net.JoinHostPort(d.host, port)
	case d.server.GetAddr() == "":
		return tunnel.LocalNode
	}
	return d.server.GetAddr()
}

// connect goes through the node's tunnel if it has one here, and dials it otherwise.
func (r *router) connect(ctx context.Context, dest destination) (net.Conn, error) {
	id, to := "", dest.address()
	if dest.server != nil {
		id = dest.server.GetName()
	}
	conn, err := r.tunnels.Dial(id, tunnel.KindNode, to)
	if err == nil {
		return conn, nil
	}
	if !errors.Is(err, tunnel.ErrNoTunnel) || to == tunnel.LocalNode || (dest.server != nil && dest.server.GetUseTunnel()) {
		return nil, agentError(to, "reverse tunnel", err)
	}
	dialer := net.Dialer{Timeout: directDialTimeout}
	conn, err = dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, agentError(to, "direct dial", err)
	}
	return conn, nil
}

// agentError says what the real proxy says.
func agentError(to, way string, err error) error {
	return fmt.Errorf("Teleport proxy failed to connect to %q agent %q over %s:\n\n  %w\n\n"+ //nolint:staticcheck // the real text
		"This usually means that the agent is offline or has disconnected. Check the\n"+
		"agent logs and, if the issue persists, try restarting it or re-registering it\n"+
		"with the cluster.", tunnel.KindNode, to, way, err)
}

// countedConn keeps the gauge of sessions right.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}

// CloseWrite ends the sending direction if the connection can.
func (c *countedConn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return c.Conn.Close()
}

// dialAuth opens a raw connection to an auth.
func (r *router) dialAuth(ctx context.Context) (io.ReadWriteCloser, error) {
	conn, err := r.env.Auth.DialAuth(ctx)
	if err != nil {
		return nil, fmt.Errorf("unable to connect to auth server: %w", err)
	}
	return conn, nil
}

// missingPeriod is how often the real proxy counts the tunnels it lacks.
const missingPeriod = 3 * time.Minute

// countMissing keeps proxy_missing_ssh_tunnels: listed nodes that should have a tunnel here and have none.
func (r *router) countMissing(ctx context.Context) {
	ticker := time.NewTicker(r.env.Scale.Of(missingPeriod))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		missing := 0
		for _, s := range r.servers.of(types.KindNode) {
			if s.GetUseTunnel() && !r.tunnels.Has(s.GetName(), tunnel.KindNode) {
				missing++
			}
		}
		r.missing.Set(float64(missing))
	}
}
