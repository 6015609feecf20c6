package existing

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/things-go/go-socks5"
)

// proxied is a proxy that counts what goes through it.
type proxied struct {
	url   string
	conns atomic.Int32
}

func socks5Proxy(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{}
	server := socks5.NewServer(socks5.WithLogger(socks5.NewLogger(log.New(io.Discard, "", 0))),
		socks5.WithDial(func(ctx context.Context, network, address string) (net.Conn, error) {
			p.conns.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = server.Serve(l) }()
	p.url = "socks5://" + l.Addr().String()
	return p
}

func connectProxy(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		p.conns.Add(1)
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer far.Close()
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(far, near); far.Close() }()
		_, _ = io.Copy(near, far)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func TestProxyURLOfTheKubeconfig(t *testing.T) {
	for _, row := range []struct {
		why         string
		proxy       func(*testing.T) *proxied
		noWebSocket bool
	}{
		{"SOCKS5, WebSocket", socks5Proxy, false},
		{"SOCKS5, SPDY", socks5Proxy, true},
		{"HTTP CONNECT, WebSocket", connectProxy, false},
		{"HTTP CONNECT, SPDY", connectProxy, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			p := row.proxy(t)
			f := newFakeAPI(t)
			f.noWebSocket = row.noWebSocket
			f.add("pods", pod("proxy", "10.9.0.7"))
			c := up(t, f, p.url)
			asked := p.conns.Load()
			if asked == 0 {
				t.Fatal("the API was not asked through the proxy")
			}
			c.direct = unreachable
			conn, err := c.DialContext(t.Context(), "tcp", "10.9.0.7:3023")
			if err != nil {
				t.Fatal(err)
			}
			talk(t, conn)
			if p.conns.Load() == asked || f.forwards.Load() == 0 {
				t.Error("the port-forward did not go through the proxy")
			}
			if got := f.websockets.Load() > 0; got == row.noWebSocket {
				t.Errorf("WebSocket: %t", got)
			}
		})
	}
}
