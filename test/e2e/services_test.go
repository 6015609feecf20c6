package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestE2EServices(t *testing.T) {
	t.Parallel()
	inSpace(t, "every kind of Service leads to its pods, from pods and from the cluster's own network", func(s *space) {
		s.apply(web(3, "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]") + `---
apiVersion: v1
kind: Service
metadata: {name: inside}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: port}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: balancer}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client}}
spec: {containers: [{name: x, image: APP}]}
`)
		pods := s.ready("web", 3)
		s.ready("client", 1)
		isPod := func(body string) bool {
			return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == body })
		}
		node, err := s.cs.CoreV1().Nodes().Get(s.ctx, "node2", metav1.GetOptions{})
		s.must(err)
		for _, address := range []string{
			"inside." + s.name + ".svc.cluster.local:80",
			s.service("inside").Spec.ClusterIP + ":80",
			fmt.Sprintf("%s:%d", node.Status.Addresses[0].Address, s.service("port").Spec.Ports[0].NodePort),
			s.balancer("balancer") + ":80",
		} {
			s.answers(address, isPod)
			s.eventually("answer of "+address+" to a pod", func() error {
				out, err := s.exec("client", "perl", "-MIO::Socket::INET", "-e", httpGet, address)
				if err == nil && !isPod(out) {
					err = fmt.Errorf("it says %q", out)
				}
				return err
			})
		}
	})
}

// httpGet is a client that every Debian has the parts for.
const httpGet = `$s=IO::Socket::INET->new(PeerAddr=>$ARGV[0],Timeout=>3) or die "connect: $@"; print $s "GET / HTTP/1.0\r\n\r\n"; local $/; $_=<$s>; s/.*?\r\n\r\n//s; print`

func (s *space) service(name string) *corev1.Service {
	s.t.Helper()
	svc, err := s.cs.CoreV1().Services(s.name).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	return svc
}

// balancer waits for the load balancer's address.
func (s *space) balancer(name string) string {
	s.t.Helper()
	s.eventually("address of "+name, func() error {
		if len(s.service(name).Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	return s.service(name).Status.LoadBalancer.Ingress[0].IP
}

func TestE2EDNS(t *testing.T) {
	t.Parallel()
	inSpace(t, "headless Services list ready pods, all of them with publishNotReadyAddresses", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Service
metadata: {name: ready}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: all}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ripe, labels: {app: web, is: ready}}
spec: {containers: [{name: x, image: APP}]}
---
apiVersion: v1
kind: Pod
metadata: {name: green, labels: {app: web, is: unready}}
spec: {containers: [{name: x, image: APP, args: ["-ready", /nowhere], readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}]}
`)
		s.ready("web", 1)
		var ripe, green string
		s.eventually("addresses", func() error {
			ripe, green = s.pod("ripe").Status.PodIP, s.pod("green").Status.PodIP
			if ripe == "" || green == "" {
				return fmt.Errorf("%q and %q", ripe, green)
			}
			return nil
		})
		both := []string{ripe, green}
		slices.Sort(both)
		s.resolves("ready."+s.name+".svc.cluster.local.", []string{ripe})
		s.resolves("all."+s.name+".svc.cluster.local.", both)
		if _, srvs, err := s.resolver().LookupSRV(s.ctx, "http", "tcp", "ready."+s.name+".svc.cluster.local."); err != nil || len(srvs) != 1 || srvs[0].Port != 8080 {
			t.Errorf("SRV record: %v (%v)", srvs, err)
		}
		if out, err := s.exec("ripe", "getent", "hosts", "all"); err != nil || out == "" {
			t.Errorf("a pod cannot resolve a Service of its namespace by its bare name: %q (%v)", out, err)
		}
	})
}

func (s *space) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return s.c.DialContext(ctx, network, "10.96.0.10:53")
	}}
}

func (s *space) resolves(name string, want []string) {
	s.t.Helper()
	s.eventually(name, func() error {
		got, err := s.resolver().LookupHost(s.ctx, name)
		slices.Sort(got)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("is %v, want %v", got, want)
		}
		return err
	})
}
