package pods

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"shakedown.dev/shakedown/teleport/ssh"
)

func TestList(t *testing.T) {
	now := time.Now()
	pod := func(name, component, release string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "lab", UID: "u-" + "1", CreationTimestamp: metav1.NewTime(now.Add(-age)), Labels: map[string]string{
				"app.kubernetes.io/instance": release, "app.kubernetes.io/component": component, "app.kubernetes.io/version": "1.0.0", "pod-template-hash": "abc",
			}},
			Spec:   corev1.PodSpec{NodeName: "node1"},
			Status: corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	client := fake.NewClientset(pod("young", Proxy, "teleport", time.Second), pod("old", Proxy, "teleport", time.Hour), pod("auth", Auth, "teleport", 0), pod("other", Proxy, "elsewhere", 0))
	got, err := List(t.Context(), client, "lab", "teleport", Proxy)
	if err != nil || len(got) != 2 || got[0].Name != "old" || got[1].Name != "young" {
		t.Fatalf("got %v, %v", got, err)
	}
	p := got[0]
	if !p.Ready || p.Terminating || p.Revision != "abc" || p.Version != "1.0.0" || p.Node != "node1" || p.Ref().Name != "old" {
		t.Errorf("got %+v", p)
	}
	if diff := cmp.Diff(ssh.Proxy{Address: "10.0.0.1:3080", Name: "localhost"}, p.Through(false)); diff != "" {
		t.Error(diff)
	}
	young, ok := ByIP(got).Of(&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 1})
	if !ok || young.Name != "young" {
		t.Errorf("the address is now %s's, got %s", "young", young.Name)
	}
}

const page = `# TYPE teleport_reverse_tunnels_connected gauge
teleport_reverse_tunnels_connected{type="node"} 3
teleport_reverse_tunnels_connected{type="kube"} 1
# TYPE backend_write_seconds histogram
backend_write_seconds_bucket{le="+Inf"} 4
backend_write_seconds_sum 2
backend_write_seconds_count 4
# TYPE rx counter
rx 9
`

func TestScrape(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	p := Pod{Name: "p", IP: "10.1.2.3"}
	got, err := NewScraper(dial).Pod(t.Context(), p)
	want := Samples{"teleport_reverse_tunnels_connected": 4, "backend_write_seconds_count": 4, "backend_write_seconds_sum": 2, "rx": 9}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, err := NewScraper(dial, "rx").Pod(t.Context(), p); err != nil || len(got) != 1 {
		t.Errorf("of one name got %v, %v", got, err)
	}
	for code, want := range map[int]Readiness{200: OK, 400: Recovering, 503: Degraded} {
		status = code
		if got, err := NewScraper(dial).Readyz(t.Context(), p); got != want || err != nil {
			t.Errorf("%d: got %v, %v", code, got, err)
		}
	}
	status = http.StatusServiceUnavailable
	if _, err := NewScraper(dial).Pod(t.Context(), p); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a page with status 503 was taken: %v", err)
	}
}

// TestScrapeProcesses: the processes of an agents' pod are added up, and of the names that are not wanted nothing is
// even parsed.
func TestScrapeProcesses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(page + "# TYPE broken gauge\nbroken this is no number\n"))
	}))
	defer server.Close()
	var dialled []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	got, err := NewScraper(dial, "rx", "backend_write_seconds").Processes(t.Context(), Pod{Name: "p", IP: "10.1.2.3"}, 2)
	want := Samples{"rx": 18, "backend_write_seconds_count": 8, "backend_write_seconds_sum": 4}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if diff := cmp.Diff([]string{"10.1.2.3:3000", "10.1.2.3:3001"}, dialled); diff != "" {
		t.Error(diff)
	}
	if _, err := NewScraper(dial).Processes(t.Context(), Pod{Name: "p", IP: "10.1.2.3"}, 1); err == nil {
		t.Error("a page that cannot be read was taken")
	}
}
