package kube

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// TestLongInput: what is written at once, however long, arrives as the API server reads it, whose library takes each
// frame for a message.
func TestLongInput(t *testing.T) {
	a, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	server := httptest.NewUnstartedServer(websocket.Server{
		Handshake: func(c *websocket.Config, _ *http.Request) error {
			c.Protocol = []string{"v4.channel.k8s.io"}
			return nil
		},
		Handler: func(conn *websocket.Conn) {
			var all strings.Builder
			for all.Len() < 100_000 {
				var message []byte
				if err := websocket.Message.Receive(conn, &message); err != nil || len(message) == 0 || message[0] != channelStdin {
					break
				}
				all.Write(message[1:])
			}
			got <- all.String()
		},
	})
	if server.TLS, err = a.TLS("*.teleport.cluster.local"); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Identity: id, Address: "10.1.2.3:3080", Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Exec(t.Context(), Target{"ns", "p", "c"}, Start{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := strings.Repeat("0123456789", 10_000)
	if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%d bytes written, %v", n, err)
	}
	if all := <-got; all != text {
		t.Errorf("%d of %d bytes arrived as they were", len(all), len(text))
	}
}
