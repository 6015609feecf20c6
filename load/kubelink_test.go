package load

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// Messages of Kubernetes' remote command protocol, version 4: the first byte is the channel.
const (
	kubeSuccess = "\x03" + `{"kind":"Status","status":"Success"}`
	kubeRemoved = "\x03" + `{"kind":"Status","status":"Failure","message":"container was removed"}`
)

// kubeServer is a proxy in front of an API server, whose containers run `cat` after telling that they are ready.
// After the third line it does what end says.
func kubeServer(t *testing.T, end string, commands chan<- string) (*identity.Identity, string) {
	t.Helper()
	a, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{"v4.channel.k8s.io"}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if end == "refuse" {
			http.Error(w, `{"kind":"Status","message":"pods \"shell-0\" not found"}`, http.StatusNotFound)
			return
		}
		commands <- strings.Join(r.URL.Query()["command"], " ")
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		cat(conn, end)
	}))
	if server.TLS, err = a.TLS("*.teleport.cluster.local"); err != nil {
		t.Fatal(err)
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // canaries speak SSH, which it does not
	server.StartTLS()
	t.Cleanup(server.Close)
	id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	return id, server.Listener.Addr().String()
}

func cat(conn *websocket.Conn, end string) {
	say := func(text string) { _ = conn.WriteMessage(websocket.BinaryMessage, []byte(text)) }
	say("\x01" + markBegin + markEnd + "\r\n")
	for n := 1; ; n++ {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		text := string(message[1:])
		switch {
		case n == 4 && end == "cut":
			return
		case n == 4 && end == "removed":
			say(kubeRemoved)
			return
		case n >= 4 && end == "mute":
			// From here on nobody reads: pings are not answered either.
			time.Sleep(10 * time.Second)
			return
		case text == endOfInput:
			say(kubeSuccess)
			return
		}
		say("\x01" + strings.ReplaceAll(text, "\n", "\r\n"))
	}
}

func TestKubeLink(t *testing.T) {
	tests := []struct {
		end    string
		class  history.Class
		cut    history.Cut
		failed history.Phase
		reason string
	}{
		{"by itself", history.Clean, "", "", ""},
		{"cut", history.Dropped, history.CutEOF, "", ""},
		{"removed", history.Dropped, history.CutMessage, "", "container was removed"},
		{"mute", history.Dropped, history.CutKeepalive, "", "no answer to a keep-alive"},
		{"refuse", history.Refused, history.CutUnrouted, history.PhaseUpgrade, "not found"},
	}
	for _, tt := range tests {
		t.Run(tt.end, func(t *testing.T) {
			t.Parallel()
			commands := make(chan string, 10)
			id, address := kubeServer(t, tt.end, commands)
			p := plan(scenarios.Session{
				Kind: scenarios.KubeExec, Behaviour: "interactive", Length: scenarios.Always(time.Second),
				Pace: scenarios.Always(50 * time.Millisecond), Keepalive: scenarios.Span(300 * time.Millisecond),
			}, scenarios.Arrival{Closed: &scenarios.Closed{Held: 1, Think: scenarios.Always(time.Hour)}})
			targets := kubeTargets()
			for i := range targets.proxies {
				targets.proxies[i].SSH = ssh.Proxy{Address: "10.1.2.3:3080"}
			}
			m := newMemory()
			e, err := New(Config{Plan: p, History: m, Targets: targets, Users: []*identity.Identity{id}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			}})
			if err != nil {
				t.Fatal(err)
			}
			e.Start(t.Context())
			for deadline := time.Now().Add(10 * time.Second); len(payloads[history.Session](m)) == 0 && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			e.Stop(t.Context())
			all := payloads[history.Session](m)
			if len(all) != 1 {
				t.Fatalf("%d sessions", len(all))
			}
			s := all[0]
			if s.Class != tt.class || s.Cut != tt.cut || s.Failed != tt.failed || !strings.Contains(s.Reason, tt.reason) {
				t.Errorf("got %s, %s, %s, %q", s.Class, s.Cut, s.Failed, s.Reason)
			}
			if tt.class == history.Refused {
				return
			}
			if s.Lines.Acked < 3 || s.Lines.Bad > 0 || s.Agent.Pod.UID != "s0" || s.Proxy.UID == "" || s.Type != "kube-exec" {
				t.Errorf("%+v", s)
			}
			if command := <-commands; !strings.Contains(command, s.Lines.Token) {
				t.Errorf("no token %s in %q", s.Lines.Token, command)
			}
		})
	}
}
