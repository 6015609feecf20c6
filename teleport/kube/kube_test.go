package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

const (
	success = "\x03" + `{"kind":"Status","status":"Success"}`
	exit7   = "\x03" + `{"kind":"Status","status":"Failure","message":"command terminated with non-zero exit code","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`
	broken  = "\x03" + `{"kind":"Status","status":"Failure","message":"container was removed"}`
)

// serve is a proxy in front of an API server whose exec echoes input, line by line, until the input says how to
// end: each key of ends is a line.
func serve(t *testing.T, refuse *int, protocol string) *Client {
	t.Helper()
	a, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *refuse != 0 {
			http.Error(w, `{"kind":"Status","message":"pods \"p\" not found"}`, *refuse)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		echo(conn)
	}))
	if server.TLS, err = a.TLS("*.teleport.cluster.local"); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "10.1.2.3:3080" {
			return nil, errors.New("dialled " + address)
		}
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	c, err := New(Options{Dial: dial, Identity: id, Address: "10.1.2.3:3080"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func echo(conn *websocket.Conn) {
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		reply := string(message[1:])
		switch strings.TrimSpace(reply) {
		case "exit 0":
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte(success))
			return
		case "exit 7":
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte(exit7))
			return
		case "break":
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte(broken))
			return
		case "close":
			_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
			return
		case "go away":
			_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""))
			return
		case "cut":
			return
		case "reset":
			abort(conn.NetConn().(*tls.Conn).NetConn())
			return
		}
		_ = conn.WriteMessage(websocket.BinaryMessage, []byte("\x01"+reply))
	}
}

func TestExec(t *testing.T) {
	tests := []struct {
		input string
		want  End
	}{
		{"exit 0", End{Exited: true}},
		{"exit 7", End{Exited: true, Status: 7, Message: "command terminated with non-zero exit code"}},
		{"break", End{Message: "container was removed", Cut: history.CutMessage}},
		{"close", End{Exited: true}}, // as Teleport 13 ends what succeeded
		{"go away", End{Cut: history.CutMessage}},
		{"cut", End{Cut: history.CutEOF}},
		{"reset", End{Cut: history.CutReset}},
	}
	for _, protocol := range protocols {
		for _, tt := range tests {
			t.Run(protocol+" "+tt.input, func(t *testing.T) {
				none := 0
				s, err := serve(t, &none, protocol).Exec(t.Context(), Target{"ns", "p", "c"}, Start{Command: []string{"cat"}, TTY: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err := io.WriteString(s, "line 1\n"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(s, tt.input); err != nil {
					t.Fatal(err)
				}
				out, err := io.ReadAll(s)
				if string(out) != "line 1\n" || err != nil {
					t.Errorf("output %q, %v", out, err)
				}
				got := s.End()
				got.Err = nil
				if got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
				if n := len(s.Phases()); n != 3 || s.Phases()[2].Phase != history.PhaseUpgrade {
					t.Errorf("phases %v", s.Phases())
				}
			})
		}
	}
}

func TestPing(t *testing.T) {
	none := 0
	s, err := serve(t, &none, protocols[0]).Exec(t.Context(), Target{"ns", "p", "c"}, Start{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go func() { _, _ = io.Copy(io.Discard, s) }()
	for range 3 {
		if took, err := s.Ping(t.Context()); err != nil || took <= 0 {
			t.Errorf("got %v, %v", took, err)
		}
	}
}

func TestExecRefused(t *testing.T) {
	tests := []struct {
		status int
		cut    history.Cut
		says   string
	}{
		{http.StatusForbidden, history.CutDenied, "kubernetes_groups"},
		{http.StatusNotFound, history.CutUnrouted, "the pod is gone"},
		{http.StatusBadGateway, history.CutUnrouted, "502"},
	}
	for _, tt := range tests {
		status := tt.status
		_, err := serve(t, &status, protocols[0]).Exec(t.Context(), Target{"ns", "p", "c"}, Start{Command: []string{"cat"}})
		var e *OpenError
		if !errors.As(err, &e) || e.Phase != history.PhaseUpgrade || e.Cut != tt.cut || e.Status != tt.status || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d: got %v", tt.status, err)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	none := 0
	c := serve(t, &none, protocols[0])
	text, err := c.Kubeconfig("lab")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil || config.Host != "https://10.1.2.3:3080" || config.ServerName != ServerName {
		t.Errorf("got %v, %v", config, err)
	}
}

// TestForwarder proves that a reset on the far side is one on the near side, and an end an end.
func TestForwarder(t *testing.T) {
	for _, reset := range []bool{false, true} {
		far, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := far.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 2))
			if reset {
				abort(c)
			}
			c.Close()
		}()
		f, err := newForwarder(new(net.Dialer).DialContext, far.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, err := net.Dial("tcp", f.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(near, "hi"); err != nil {
			t.Fatal(err)
		}
		_, err = near.Read(make([]byte, 1))
		if want := map[bool]history.Cut{false: history.CutEOF, true: history.CutReset}[reset]; cutOf(err) != want {
			t.Errorf("reset %t: got %v, want %s", reset, err, want)
		}
		near.Close()
		f.Close()
		far.Close()
	}
}
