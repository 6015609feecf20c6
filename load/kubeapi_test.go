package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// api is a proxy with an API server behind it, which goes wrong in one way.
type api struct {
	end   string
	calls atomic.Int64
	paths chan string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case a.paths <- r.URL.String():
	default:
	}
	switch {
	case a.end == "refuse":
		http.Error(w, `{"kind":"Status","message":"pods is forbidden"}`, http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		a.forward(w, r)
	case r.URL.Query().Get("watch") != "":
		a.watch(w)
	default:
		a.list(w)
	}
}

func (a *api) watch(w http.ResponseWriter) {
	for n := 1; ; n++ {
		if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"pod-%d","note":"%s"}}}`+"\n", n, strings.Repeat("x", 9000)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		switch {
		case n < 3:
		case a.end == "ends":
			return
		case a.end == "cut":
			panic(http.ErrAbortHandler)
		case a.end == "error":
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","message":"too old resource version","code":410}}`)
			return
		case n == 3:
			time.Sleep(10 * time.Second) // silent, and yet alive
			return
		}
	}
}

func (a *api) list(w http.ResponseWriter) {
	switch n := a.calls.Add(1); {
	case n <= 3:
	case a.end == "error":
		http.Error(w, `{"kind":"Status","message":"etcd is away"}`, http.StatusServiceUnavailable)
		return
	case a.end == "cut":
		panic(http.ErrAbortHandler)
	case a.end == "mute":
		time.Sleep(3 * time.Second)
	}
	fmt.Fprintln(w, `{"kind":"PodList","items":[]}`)
}

// forward serves HTTP on the forwarded connection.
func (a *api) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	said, data := <-streams, <-streams
	if a.end == "nobody" {
		fmt.Fprint(said, "connect: connection refused")
		said.Close()
		data.Reset()
		time.Sleep(200 * time.Millisecond)
		return
	}
	in := bufio.NewReader(data)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(in)
		if err != nil || n == 3 && a.end == "cut" {
			return
		}
		io.Copy(io.Discard, req.Body)
		if n >= 3 && a.end == "mute" {
			continue
		}
		io.WriteString(data, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func TestKubernetesSessions(t *testing.T) {
	watch := scenarios.Session{Kind: scenarios.KubeWatch, Behaviour: "watch"}
	asks := scenarios.Session{Kind: scenarios.KubeAPI, Behaviour: "calls", Pace: scenarios.Always(50 * time.Millisecond)}
	forward := scenarios.Session{Kind: scenarios.KubePortForward, Behaviour: "idle"}
	tests := []struct {
		because string
		session scenarios.Session
		end     string
		class   history.Class
		cut     history.Cut
		failed  history.Phase
		reason  string
		answers uint64 // at least
	}{
		{"a watch that is left", watch, "", history.Clean, "", "", "", 3},
		{"a watch that the server ends", watch, "ends", history.Dropped, history.CutEOF, "", "the server ended the watch", 3},
		{"a watch that is cut", watch, "cut", history.Dropped, history.CutEOF, "", "unexpected EOF", 3},
		{"a watch that fails", watch, "error", history.Dropped, history.CutMessage, "", "too old resource version", 3},
		{"a watch that is forbidden", watch, "refuse", history.Refused, history.CutDenied, history.PhaseStream, "pods is forbidden", 0},
		{"calls that are answered", asks, "", history.Clean, "", "", "", 10},
		{"a call that fails", asks, "error", history.Dropped, history.CutMessage, "", "etcd is away", 3},
		{"a call that is cut off", asks, "cut", history.Dropped, history.CutEOF, "", "the connection was ended", 3},
		{"a call that is not answered", asks, "mute", history.Stalled, "", "", "neither taken nor answered", 3},
		{"calls that are forbidden", asks, "refuse", history.Refused, history.CutDenied, history.PhaseStream, "pods is forbidden", 0},
		{"a forwarded port", forward, "", history.Clean, "", "", "", 0},
		{"a forwarded port that is cut", forward, "cut", history.Dropped, history.CutEOF, "", "", 0},
		{"a forwarded port that falls silent", forward, "mute", history.Dropped, history.CutKeepalive, "", "nothing came back", 0},
		{"a port where nobody listens", forward, "nobody", history.Refused, history.CutEOF, history.PhaseStream, "connection refused", 0},
		{"a forwarded port that is forbidden", forward, "refuse", history.Refused, history.CutProtocol, history.PhaseStream, "forbidden", 0},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			t.Parallel()
			a := &api{end: tt.end, paths: make(chan string, 10)}
			s := kubeSession(t, a, tt.session)
			if s.Class != tt.class || s.Cut != tt.cut || s.Failed != tt.failed || !strings.Contains(s.Reason, tt.reason) {
				t.Errorf("got %s, %q, %q, %q", s.Class, s.Cut, s.Failed, s.Reason)
			}
			if s.Answers < tt.answers || s.Type != tt.session.Kind || s.Recorded || s.Proxy.UID == "" {
				t.Errorf("%+v", s)
			}
			if tt.session.Kind == scenarios.KubePortForward != (s.Agent.Pod.UID == "s0") {
				t.Errorf("went to %+v", s.Agent)
			}
			if tt.class == history.Clean && (s.BytesReceived == 0 || s.Open == 0 || len(s.Phases) == 0 || s.Local == "" || s.Remote == "") {
				t.Errorf("%+v", s)
			}
			if path := <-a.paths; !strings.HasPrefix(path, "/api/v1/namespaces/apps/pods") {
				t.Errorf("asked for %s", path)
			}
		})
	}
}

// kubeSession runs one session against the server.
func kubeSession(t *testing.T, a *api, session scenarios.Session) history.Session {
	t.Helper()
	authority, err := sshtest.NewAuthority("lab.example.com")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(a)
	if server.TLS, err = authority.TLS("*.teleport.cluster.local"); err != nil {
		t.Fatal(err)
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Listener.Close() })
	id, _, err := authority.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		t.Fatal(err)
	}
	session.Length = scenarios.Always(time.Second)
	p := plan(session, scenarios.Arrival{Closed: &scenarios.Closed{Held: 1, Think: scenarios.Always(time.Hour)}})
	if in := &p.Streams[0].Mix[0].Session; in.Kind == scenarios.KubePortForward {
		in.Keepalive = scenarios.Span(300 * time.Millisecond)
	} else if in.Behaviour == "watch" {
		in.Length = scenarios.Always(5 * time.Second) // more than two keep-alives of two seconds
	}
	p.Validity.Stall = scenarios.Span(time.Second)
	targets := kubeTargets()
	targets.pods[0].Port, targets.pods[0].Target.Namespace = 3000, "apps"
	for i := range targets.proxies {
		targets.proxies[i].SSH = ssh.Proxy{Address: "10.1.2.3:3080"}
	}
	m := newMemory()
	e, err := New(Config{Plan: p, History: m, Targets: targets, Users: []*identity.Identity{id}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.canary = func(context.Context, Proxy, history.Agent) *openError { return nil }
	e.Start(t.Context())
	waitFor(t, func() bool { return len(payloads[history.Session](m)) == 1 })
	e.Stop(t.Context())
	return payloads[history.Session](m)[0]
}
