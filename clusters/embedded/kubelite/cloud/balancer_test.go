package cloud

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// testService is a Service as the lister shows it; ip is the one of its status.
func testService(name, ip string, change ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
	}
	if ip != "" {
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: ip}}
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func wantIP(ip string) func(*v1.Service) {
	return func(s *v1.Service) { s.Spec.LoadBalancerIP = ip }
}

func testBalancer(t *testing.T, pool string, services ...*v1.Service) *balancer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, s := range services {
		if err := indexer.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return newBalancer(netip.MustParsePrefix(pool), corelisters.NewServiceLister(indexer), slog.New(slog.DiscardHandler))
}

func TestAddressOfAService(t *testing.T) {
	ipv6 := func(s *v1.Service) { s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol} }
	for _, tt := range []struct {
		sentence      string
		pool          string
		others        []*v1.Service
		service       *v1.Service
		want, wantErr string
	}{
		{"the lowest that is free, the range's first left out", "10.97.0.0/16", []*v1.Service{testService("a", "10.97.0.1"), testService("b", "10.97.0.3")}, testService("x", ""), "10.97.0.2", ""},
		{"the one its status has, as after a restart", "10.97.0.0/16", nil, testService("x", "10.97.4.2"), "10.97.4.2", ""},
		{"not that of its status if another has it", "10.97.0.0/16", []*v1.Service{testService("a", "10.97.4.2")}, testService("x", "10.97.4.2"), "10.97.0.1", ""},
		{"not that of its status if it is of another range", "10.97.0.0/16", nil, testService("x", "192.0.2.1"), "10.97.0.1", ""},
		{"the one it asks for", "10.97.0.0/16", nil, testService("x", "", wantIP("10.97.9.9")), "10.97.9.9", ""},
		{"the one it asks for, though it has another", "10.97.0.0/16", nil, testService("x", "10.97.0.5", wantIP("10.97.9.9")), "10.97.9.9", ""},
		{"one it asks for outside the range is ignored", "10.97.0.0/16", nil, testService("x", "", wantIP("203.0.113.1")), "10.97.0.1", ""},
		{"one it asks for that another has is refused, and whose it is said", "10.97.0.0/16", []*v1.Service{testService("a", "10.97.9.9")}, testService("x", "", wantIP("10.97.9.9")), "", "taken by Service ns/a"},
		{"one that is none is refused", "10.97.0.0/16", nil, testService("x", "", wantIP("here")), "", "spec.loadBalancerIP"},
		{"a full range is said to be full", "10.97.0.0/30", []*v1.Service{testService("a", "10.97.0.1"), testService("b", "10.97.0.2")}, testService("x", ""), "", "no address is free in 10.97.0.0/30: 2 are taken"},
		{"a Service of IPv6 alone is refused", "10.97.0.0/16", nil, testService("x", "", ipv6), "", "the Service wants [IPv6]"},
	} {
		b := testBalancer(t, tt.pool, append(tt.others, tt.service)...)
		status, err := b.EnsureLoadBalancer(context.Background(), "", tt.service, nil)
		switch {
		case tt.wantErr != "":
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: error %v, want %q in it", tt.sentence, err, tt.wantErr)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.sentence, err)
		case len(status.Ingress) != 1 || status.Ingress[0].IP != tt.want:
			t.Errorf("%s: %v, want %s", tt.sentence, status.Ingress, tt.want)
		}
	}
}

func TestAddressesThatTheListerDoesNotShowYetAreTaken(t *testing.T) {
	b, ctx := testBalancer(t, "10.97.0.0/16"), context.Background()
	a, x := testService("a", ""), testService("x", "")
	ensure := func(s *v1.Service) string {
		status, err := b.EnsureLoadBalancer(ctx, "", s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return status.Ingress[0].IP
	}
	first := ensure(a)
	if second := ensure(x); second == first {
		t.Fatalf("both got %s", first)
	}
	if again := ensure(a); again != first {
		t.Errorf("the address changed from %s to %s", first, again)
	}
	if _, exists, _ := b.GetLoadBalancer(ctx, "", a); !exists {
		t.Error("what was given does not exist")
	}
	if err := b.EnsureLoadBalancerDeleted(ctx, "", a); err != nil {
		t.Fatal(err)
	}
	if _, exists, _ := b.GetLoadBalancer(ctx, "", a); exists {
		t.Error("what was freed exists")
	}
	if third := ensure(testService("c", "")); third != first {
		t.Errorf("the freed address %s was not given again but %s", first, third)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ sentence, dir, pool, want string }{
		{"a relative directory differs from node to node", "volumes", "10.97.0.0/16", "want an absolute path"},
		{"IPv6 is not what the balancer has", "/v", "fd00::/64", "want an IPv4 range"},
		{"a range without addresses", "/v", "10.0.0.0/31", "at least four addresses"},
	} {
		_, err := Options{Dir: tt.dir, LoadBalancerRange: netip.MustParsePrefix(tt.pool)}.complete()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.sentence, err, tt.want)
		}
	}
}
