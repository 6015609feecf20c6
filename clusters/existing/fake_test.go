package existing

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// fakeAPI is as much of an API server as a run needs to find pods and forward to them.
type fakeAPI struct {
	*httptest.Server
	kubelet     *httptest.Server
	noWebSocket bool                    // refuses the newer port-forward
	forbidden   string                  // a resource that may not be listed
	away        atomic.Bool             // answers everything with 503
	listen      func(port string) error // what a pod says to a connection: nil answers with an echo
	forwards    atomic.Int32
	websockets  atomic.Int32

	mu      sync.Mutex
	objects map[string][]any // by resource
	told    map[string][]chan any
	over    chan struct{}
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{objects: map[string][]any{}, told: map[string][]chan any{}, over: make(chan struct{}), listen: func(string) error { return nil }}
	f.Server, f.kubelet = httptest.NewTLSServer(f), httptest.NewServer(http.HandlerFunc(f.forwardSPDY))
	t.Cleanup(func() {
		close(f.over)
		for _, s := range []*httptest.Server{f.Server, f.kubelet} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return f
}

// add lets watchers see an object.
func (f *fakeAPI) add(resource string, objects ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[resource] = append(f.objects[resource], objects...)
	for _, watcher := range f.told[resource] {
		for _, o := range objects {
			watcher <- o
		}
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case f.away.Load():
		http.Error(w, "away", http.StatusServiceUnavailable)
	case resource == "version":
		fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
	case resource == "portforward":
		f.forward(w, r)
	case resource == f.forbidden:
		answer(w, http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403, Message: "forbidden"})
	case r.URL.Query().Get("sendInitialEvents") != "": // an API server that does not stream lists
		answer(w, http.StatusUnprocessableEntity, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
	case r.URL.Query().Get("watch") != "":
		f.watch(w, resource)
	default:
		f.list(w, resource)
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fakeAPI) list(w http.ResponseWriter, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind, version := map[string]string{"pods": "PodList", "services": "ServiceList", "endpointslices": "EndpointSliceList", "nodes": "NodeList"}[resource], "v1"
	if resource == "endpointslices" {
		version = "discovery.k8s.io/v1"
	}
	items := f.objects[resource]
	if items == nil {
		items = []any{}
	}
	answer(w, http.StatusOK, map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
}

func (f *fakeAPI) watch(w http.ResponseWriter, resource string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	mine := make(chan any, 16)
	f.mu.Lock()
	f.told[resource] = append(f.told[resource], mine)
	f.mu.Unlock()
	for {
		select {
		case o := <-mine:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": o})
			w.(http.Flusher).Flush()
		case <-f.over:
			return
		}
	}
}

// forward takes a port-forward in either of its transports and hands it to the kubelet, as an API server does.
func (f *fakeAPI) forward(w http.ResponseWriter, r *http.Request) {
	f.forwards.Add(1)
	at, _ := url.Parse(f.kubelet.URL)
	classic := apiproxy.NewUpgradeAwareHandler(at, nil, false, true, f)
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		classic.ServeHTTP(w, r)
		return
	}
	if f.noWebSocket {
		http.Error(w, "no such upgrade", http.StatusBadRequest)
		return
	}
	f.websockets.Add(1)
	proxy.NewTunnelingHandler(classic).ServeHTTP(w, r)
}

// Error is told by the way to the kubelet.
func (f *fakeAPI) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// forwardSPDY is the kubelet.
func (f *fakeAPI) forwardSPDY(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if conn == nil {
		return
	}
	defer conn.Close()
	var reasons, data httpstream.Stream
	for reasons == nil || data == nil {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				reasons = s
			} else {
				data = s
			}
		case <-conn.CloseChan():
			return
		}
	}
	if err := f.listen(data.Headers().Get(corev1.PortHeader)); err != nil {
		_ = data.Close() // the worse order: the end comes before its reason
		time.Sleep(10 * time.Millisecond)
		fmt.Fprint(reasons, err)
	} else {
		_, _ = io.Copy(data, data)
	}
	_ = data.Close()
	_ = reasons.Close()
	select {
	case <-conn.CloseChan():
	case <-f.over:
	}
}

// kubeconfig writes a file with one context, "theirs".
func (f *fakeAPI) kubeconfig(t *testing.T, proxyURL string) string {
	t.Helper()
	c := api.NewConfig()
	c.Clusters["far"] = &api.Cluster{Server: f.URL, InsecureSkipTLSVerify: true, ProxyURL: proxyURL}
	c.AuthInfos["me"] = &api.AuthInfo{Token: "none"}
	c.Contexts["theirs"] = &api.Context{Cluster: "far", AuthInfo: "me"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func pod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "teleport", ResourceVersion: "2"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
}

func service(name, ip string, port int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "teleport", ResourceVersion: "2"},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "tls", Port: port}}},
	}
}

// slice says that the pods, by name and address, are ready behind a Service.
func slice(service string, port int32, pods ...string) *discoveryv1.EndpointSlice {
	name, ready := "tls", true
	s := &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: service + "-1", Namespace: "teleport", ResourceVersion: "2", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for p := range slices.Chunk(pods, 2) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: p[1:], Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "teleport", Name: p[0]},
		})
	}
	return s
}

// echoes answers on a port of loopback with what it is sent.
func echoes(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}
