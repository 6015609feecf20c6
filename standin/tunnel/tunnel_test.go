package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil/sshtest"
)

const cluster = "main"

// fleet is some proxies behind one address that is dialled round robin, as a Service would be.
type fleet struct {
	t       *testing.T
	ca      *sshtest.CA
	names   []string
	servers []*Server
	addrs   []string
	stops   []context.CancelFunc
	gauge   *prometheus.GaugeVec
	next    atomic.Int64
	mu      sync.Mutex // guards addrs
}

func newFleet(t *testing.T, names ...string) *fleet {
	f := &fleet{t: t, ca: sshtest.NewCA(t), names: names,
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "teleport_reverse_tunnels_connected"}, []string{"type"})}
	for _, name := range names {
		f.start(name)
	}
	return f
}

func (f *fleet) start(name string) {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.t.Cleanup(cancel)
	context.AfterFunc(ctx, func() { l.Close() })
	s := NewServer(ServerConfig{
		Cluster: cluster, HostKey: f.ca.Host(name, cluster, "Proxy"), HostCAs: f.cas,
		Proxies: func() []string { return f.names }, Offline: time.Minute, Connected: f.gauge, Log: slog.New(slog.DiscardHandler),
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.Handle(ctx, conn)
		}
	}()
	f.servers, f.stops = append(f.servers, s), append(f.stops, cancel)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addrs = append(f.addrs, l.Addr().String())
}

func (f *fleet) cas(context.Context) ([]ssh.PublicKey, error) { return f.ca.Keys(), nil }

func (f *fleet) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	addrs := slices.Clone(f.addrs)
	f.mu.Unlock()
	if len(addrs) == 0 {
		return nil, errors.New("no proxy is up")
	}
	addr := addrs[int(f.next.Add(1))%len(addrs)]
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

func (f *fleet) pool(uuid string, key ssh.Signer) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := NewPool(PoolConfig{UUID: uuid, HostKey: key, HostCAs: f.cas, Dial: f.dial, KeepAlive: time.Minute, Log: slog.New(slog.DiscardHandler),
		Handle: func(_ context.Context, c net.Conn) {
			io.WriteString(c, uuid+"\n")
			io.Copy(c, c)
		}})
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	f.t.Cleanup(func() { cancel(); <-done })
	return p
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestPoolReachesEveryProxy(t *testing.T) {
	f := newFleet(t, "p1", "p2")
	p := f.pool("node-1", f.ca.Host("node-1", cluster, "Node"))
	eventually(t, "one tunnel to each proxy", func() bool { return slices.Equal(p.Connected(), []string{"p1", "p2"}) })
	eventually(t, "both counted", func() bool { return testutil.ToFloat64(f.gauge.WithLabelValues("node")) == 2 })

	for _, s := range f.servers {
		conn, err := s.Dial("node-1", KindNode, LocalNode)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len("node-1\n"))
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "node-1\n" {
			t.Fatalf("read %q, %v", buf, err)
		}
		conn.Close()
	}
}

func TestDialWithoutTunnelSaysWhy(t *testing.T) {
	f := newFleet(t, "p1")
	_, err := f.servers[0].Dial("gone", KindNode, LocalNode)
	if !errors.Is(err, ErrNoTunnel) || !strings.HasSuffix(err.Error(), "no node reverse tunnel for gone.main found") {
		t.Fatalf("error %v", err)
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	f := newFleet(t, "p1")
	p := f.pool("node-1", sshtest.NewCA(t).Host("node-1", cluster, "Node"))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := p.connect(ctx); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Fatalf("error %v", err)
	}
	if got := f.servers[0].all(); len(got) != 0 {
		t.Fatalf("%d agents connected", len(got))
	}
}

func TestAdvisedAgentKeepsItsSessionsAndConnectsAgain(t *testing.T) {
	f := newFleet(t, "p1")
	p := f.pool("node-1", f.ca.Host("node-1", cluster, "Node"))
	var conn net.Conn
	eventually(t, "a session", func() bool {
		var err error
		conn, err = f.servers[0].Dial("node-1", KindNode, LocalNode)
		return err == nil
	})
	defer conn.Close()
	old := f.servers[0].all()[0]
	f.servers[0].AdviseReconnect(t.Context())

	eventually(t, "a second tunnel beside the draining one", func() bool { return len(f.servers[0].all()) == 2 && len(p.Connected()) == 1 })
	io.WriteString(conn, "still here\n")
	buf := make([]byte, len("node-1\nstill here\n"))
	if _, err := io.ReadFull(conn, buf); err != nil {
		t.Fatalf("session on the draining tunnel: %v", err)
	}
	if _, err := old.dial(dialRequest{ServerID: "node-1.main", ConnType: KindNode}); err == nil || !strings.Contains(err.Error(), "draining") {
		t.Fatalf("new session on the draining tunnel: %v", err)
	}
	conn.Close()
	eventually(t, "the draining tunnel closes after its last session", func() bool { return len(f.servers[0].all()) == 1 })
}

func TestLostProxyIsDialledAgain(t *testing.T) {
	f := newFleet(t, "p1")
	p := f.pool("node-1", f.ca.Host("node-1", cluster, "Node"))
	eventually(t, "first tunnel", func() bool { return len(p.Connected()) == 1 })
	f.stops[0]()
	eventually(t, "tunnel lost", func() bool { return len(p.Connected()) == 0 })
	f.mu.Lock()
	f.servers, f.addrs = nil, f.addrs[:0]
	f.mu.Unlock()
	f.start("p1")
	eventually(t, "second tunnel", func() bool { return len(p.Connected()) == 1 })
}

func TestBackoffIsLinear(t *testing.T) {
	l := linear{step: backoffStep, max: maxBackoff}
	now := time.Unix(0, 0)
	for _, want := range []time.Duration{0, 1, 2, 3, 4, 5, 6, 7, 8, 8} {
		want *= time.Second
		now = now.Add(time.Second)
		if got := l.next(now); got < want/2 || got > want {
			t.Errorf("waits %s, want between %s and %s", got, want/2, want)
		}
	}
	if got := l.next(now.Add(time.Minute)); got != 0 {
		t.Errorf("waits %s after a long time of quiet, want none", got)
	}
}
