package kube

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// fakeAPI is a Kubernetes API server with one pod, whose exec is cat with a numbered end: "exit N" ends it.
type fakeAPI struct {
	*httptest.Server
	mu   sync.Mutex
	seen []http.Header
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/default/pods/web", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kind":"Pod","metadata":{"name":"web"}}`)
	})
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2 {
			fmt.Fprintf(w, `{"type":"ADDED","n":%d}`+"\n", i)
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})
	mux.HandleFunc("/api/v1/namespaces/default/pods/web/exec", f.exec)
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.Header.Clone())
		f.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// last are the headers of the request seen last.
func (f *fakeAPI) last() http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[len(f.seen)-1]
}

// kubeconfig writes a file by which a service reaches the server.
func (f *fakeAPI) kubeconfig(t *testing.T) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: %s, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: secret}}]\n", f.URL, ca)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *fakeAPI) exec(w http.ResponseWriter, r *http.Request) {
	if wsstream.IsWebSocketRequest(r) {
		f.execWebSocket(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	byType := map[string]httpstream.Stream{}
	for len(byType) < want(r) {
		s := <-streams
		byType[s.Headers().Get("streamType")] = s
	}
	cat(byType["stdin"], byType["stdout"], byType["error"])
}

func want(r *http.Request) int {
	n := 1 // error
	for _, name := range []string{"stdin", "stdout", "stderr", "tty"} {
		if r.URL.Query().Get(name) == "true" {
			n++
		}
	}
	return n
}

func (f *fakeAPI) execWebSocket(w http.ResponseWriter, r *http.Request) {
	channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: channels}, "v4.channel.k8s.io": {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	go io.Copy(io.Discard, streams[channelResize])
	cat(streams[channelStdin], streams[channelStdout], streams[channelError])
}

// cat gives lines back until "exit N", then the status of a command that ended so.
func cat(in io.Reader, out, status io.Writer) {
	code := "0"
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
			code = n
			break
		}
		fmt.Fprintf(out, "%s\r\n", lines.Text())
	}
	answer := map[string]any{"metadata": map[string]any{}, "status": "Success"}
	if code != "0" {
		answer = map[string]any{"metadata": map[string]any{}, "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
			"details": map[string]any{"causes": []map[string]string{{"reason": "ExitCode", "message": code}}}}
	}
	json.NewEncoder(status).Encode(answer)
	time.Sleep(20 * time.Millisecond) // let it through before the connection is closed
}
