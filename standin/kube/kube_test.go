package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/ecdsa"
	"crypto/x509"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
	"shakedown.dev/shakedown/standin/tunnel"
)

const (
	kubeUUID  = "dddddddd-0000-4000-8000-000000000001"
	proxyUUID = "aaaaaaaa-0000-4000-8000-000000000001"
)

// rig is a forwarder, as in a proxy, a Kubernetes service and a fake API server.
type rig struct {
	t       *testing.T
	auth    *sshtest.Auth
	api     *fakeAPI
	service *service
	addr    string // of the forwarder
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, auth: sshtest.NewAuth(t), api: newFakeAPI(t)}
	cfg, err := config.Parse("teleport.yaml", fmt.Appendf(nil, "version: v3\nteleport: {data_dir: %s}\nkubernetes_service: {enabled: yes, listen_addr: '127.0.0.1:0', kubeconfig_file: %s, kube_cluster_name: main}\n", t.TempDir(), r.api.kubeconfig(t)), true)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := New(r.env(cfg, kubeUUID, "auth-1", types.RoleKube))
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	r.service = svc.(*service)
	r.startForwarder(r.env(cfg, proxyUUID, "proxy-1", types.RoleProxy))
	return r
}

func (r *rig) env(cfg *config.Config, uuid, name string, role types.SystemRole) process.Env {
	client := r.auth.Client(uuid, name, role)
	sshtest.TLSIdentity(client, r.auth.Hosts.TLS(pkix.Name{CommonName: uuid + ".main", Organization: []string{string(role)}}, "*.teleport.cluster.local"))
	return process.Env{Config: cfg, Auth: client, Behaviour: process.Behaviours()[0], Metrics: prometheus.NewRegistry(), Scale: 20, Log: slog.New(slog.DiscardHandler), Heartbeat: func(string, error) {}}
}

func (r *rig) startForwarder(env process.Env) {
	f := NewForwarder(ForwarderConfig{Env: env, Tunnels: tunnel.NewServer(tunnel.ServerConfig{Cluster: "main"}), Servers: func(ctx context.Context) []types.Server {
		servers, _ := env.Auth.Servers(ctx, types.KindKubeService)
		return servers
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(func() { cancel(); l.Close(); f.Close() })
	go f.Serve(ctx)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.Handle(ctx, conn)
		}
	}()
	r.addr = l.Addr().String()
	r.eventually("service announced", func() bool { return len(f.cfg.Servers(ctx)) == 1 })
}

func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never happened: %s", what)
		}
	}
}

// alice is a certificate as in a kubeconfig of `auth sign --format=kubernetes`.
func (r *rig) alice(roles ...string) tls.Certificate {
	return r.auth.Users.TLS(pkix.Name{CommonName: "alice", Organization: roles, ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 9999, 1, 3}, Value: "main"}}})
}

func (r *rig) client(cert tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.auth.Hosts.Pool(), Certificates: []tls.Certificate{cert}, ServerName: "localhost"}}}
}

// restConfig is what client-go needs, with the certificate as PEM.
func (r *rig) restConfig() *rest.Config {
	cert := r.alice("load")
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		r.t.Fatal(err)
	}
	return &rest.Config{Host: "https://" + r.addr, TLSClientConfig: rest.TLSClientConfig{
		CAData: r.auth.Hosts.PEM(), ServerName: "localhost",
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}}
}

func TestPlainRequestIsImpersonated(t *testing.T) {
	r := newRig(t)
	req, _ := http.NewRequest("GET", "https://"+r.addr+"/api/v1/namespaces/default/pods/web", nil)
	req.Header.Set("Impersonate-User", "root") // not for users to say
	resp, err := r.client(r.alice("load")).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || !strings.Contains(string(body), `"Pod"`) {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	h := r.api.last()
	if h.Get("Impersonate-User") != "alice" || strings.Join(h["Impersonate-Group"], ",") != "system:masters,system:authenticated" || h.Get("Authorization") != "Bearer secret" {
		t.Errorf("the API server saw %v", h)
	}
	r.eventually("audit event", func() bool { return len(r.auth.Events("kube.request")) == 1 })
	e := r.auth.Events("kube.request")[0].(*events.KubeRequest)
	if e.User != "alice" || e.ResourceKind != "pods" || e.ResourceName != "web" || e.ResponseCode != 200 || e.KubernetesCluster != "main" || !strings.HasPrefix(e.RemoteAddr, "127.0.0.1:") {
		t.Errorf("event %+v", e)
	}
}

func TestWatchArrivesAsItHappens(t *testing.T) {
	r := newRig(t)
	resp, err := r.client(r.alice("load")).Get("https://" + r.addr + "/api/v1/pods?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := resp.Body.Read(buf)
	if err != nil || strings.Count(string(buf[:n]), "\n") != 1 {
		t.Errorf("first read gave %q, %v, want one event", buf[:n], err)
	}
	rest, _ := io.ReadAll(resp.Body)
	if strings.Count(string(rest), "\n") != 1 {
		t.Errorf("the rest is %q", rest)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct {
		why  string
		cert tls.Certificate
		code int
		want string
	}{
		{"no certificate", tls.Certificate{}, 401, "certificate is required"},
		{"another authority's", sshtest.NewCA(t).TLS(pkix.Name{CommonName: "mallory"}), 401, "access denied"},
		{"a host's", r.auth.Hosts.TLS(pkix.Name{CommonName: "x"}), 401, "user certificate"},
		{"a user without Kubernetes groups", r.alice(), 403, "not allowed"},
	} {
		resp, err := r.client(tc.cert).Get("https://" + r.addr + "/api/v1/namespaces/default/pods/web")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != tc.code || !strings.Contains(string(body), tc.want) || !strings.Contains(string(body), `"kind":"Status"`) {
			t.Errorf("%s: %s: %s", tc.why, resp.Status, body)
		}
	}
}

func TestServiceBelievesProxiesOnly(t *testing.T) {
	r := newRig(t)
	identity, err := user{Name: "root", Roles: []string{"load"}, Expires: time.Now().Add(time.Hour)}.encode()
	if err != nil {
		t.Fatal(err)
	}
	node := r.auth.Hosts.TLS(pkix.Name{CommonName: "node.main", Organization: []string{"Node"}})
	client := r.client(node)
	req, _ := http.NewRequest("GET", "https://"+r.service.listener.Addr().String()+"/api/v1/namespaces/default/pods/web", nil)
	req.Header.Set(headerIdentity, identity)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 401 {
		t.Errorf("a node's word was taken: %s", resp.Status)
	}
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestExec(t *testing.T) {
	for _, protocol := range []string{"SPDY", "WebSocket"} {
		for _, tty := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s tty=%v", protocol, tty), func(t *testing.T) {
				r := newRig(t)
				url := fmt.Sprintf("https://%s/api/v1/namespaces/default/pods/web/exec?command=cat&command=-u&container=c&stdin=true&stdout=true&tty=%v", r.addr, tty)
				out, err := r.exec(protocol, url, tty)
				if err == nil || !strings.Contains(err.Error(), "7") {
					t.Errorf("ended with %v, want exit code 7", err)
				}
				if out != "hello\r\nworld\r\n" {
					t.Errorf("output %q", out)
				}
				r.checkAudit(tty)
			})
		}
	}
}

func (r *rig) exec(protocol, url string, tty bool) (string, error) {
	r.t.Helper()
	cfg := r.restConfig()
	var executor remotecommand.Executor
	var err error
	if protocol == "SPDY" {
		u, _ := http.NewRequest("POST", url, nil)
		executor, err = remotecommand.NewSPDYExecutor(cfg, "POST", u.URL)
	} else {
		executor, err = remotecommand.NewWebSocketExecutor(cfg, "GET", url)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	in, typist := io.Pipe()
	out := &output{}
	go func() {
		for _, line := range []string{"hello", "world"} {
			io.WriteString(typist, line+"\n")
			for deadline := time.Now().Add(5 * time.Second); !strings.Contains(out.String(), line) && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
		io.WriteString(typist, "exit 7\n")
	}()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: tty})
	in.Close()
	return out.String(), err
}

func (r *rig) checkAudit(tty bool) {
	t := r.t
	t.Helper()
	r.eventually("end event", func() bool { return len(r.auth.Events("session.end")) == 1 })
	start := r.auth.Events("session.start")[0].(*events.SessionStart)
	if start.KubernetesPodName != "web" || start.KubernetesContainerName != "c" || strings.Join(start.InitialCommand, " ") != "cat -u" || start.Protocol != "kube" {
		t.Errorf("start event %+v", start)
	}
	run := r.auth.Events("exec")[0].(*events.Exec)
	if run.Code != "T3002E" || run.ExitCode != "7" {
		t.Errorf("exec event has code %s, exit code %q", run.Code, run.ExitCode)
	}
	if !tty {
		return
	}
	r.eventually("recording", func() bool { return r.auth.Recording(start.SessionID) != nil })
	var text strings.Builder
	var kinds []string
	for _, e := range r.auth.Recording(start.SessionID) {
		if p, ok := e.(*events.SessionPrint); ok {
			text.Write(p.Data)
			continue
		}
		kinds = append(kinds, e.GetType())
	}
	if text.String() != "hello\r\nworld\r\n" {
		t.Errorf("recorded %q", text.String())
	}
	if got := strings.Join(kinds, " "); got != "session.start exec session.data session.end" {
		t.Errorf("recorded events %s", got)
	}
}

func TestKubectl(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	r := newRig(t)
	cfg := r.restConfig()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"ca": cfg.CAData, "cert": cfg.CertData, "key": cfg.KeyData} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("kubectl", "--kubeconfig=/dev/null", "--server="+cfg.Host, "--tls-server-name=localhost", "--certificate-authority="+dir+"/ca",
		"--client-certificate="+dir+"/cert", "--client-key="+dir+"/key", "get", "--raw", "/api/v1/namespaces/default/pods/web").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"Pod"`) {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestParsePath(t *testing.T) {
	for path, want := range map[string]resource{
		"/api/v1/pods":                                         {group: "core/v1", kind: "pods"},
		"/api/v1/namespaces/d":                                 {group: "core/v1", kind: "namespaces", name: "d"},
		"/api/v1/namespaces/d/pods":                            {group: "core/v1", namespace: "d", kind: "pods"},
		"/api/v1/namespaces/d/pods/p/exec":                     {group: "core/v1", namespace: "d", kind: "pods/exec", name: "p", sub: "exec"},
		"/apis/apps/v1/namespaces/d/deployments/x":             {group: "apps/v1", namespace: "d", kind: "deployments", name: "x"},
		"/api/v1/watch/namespaces/d/pods/p":                    {group: "core/v1", namespace: "d", kind: "pods", name: "p"},
		"/apis/apiregistration.k8s.io/v1/apiservices/x/status": {group: "apiregistration.k8s.io/v1", kind: "apiservices/status", name: "x", sub: "status"},
		"/api":     {},
		"/version": {},
	} {
		if got := parsePath(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}
