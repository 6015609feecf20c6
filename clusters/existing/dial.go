package existing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// directTimeout is how long the one try may take that decides whether pods are reached from here.
const directTimeout = 2 * time.Second

// way is how pods are reached; it is found out with the first connection, and kept.
type way struct {
	once    sync.Once
	forward bool
}

// endpoint is a port of a pod.
type endpoint struct {
	namespace, pod string
	ip             string
	port           int
}

// DialContext connects to pods and Services by their own addresses and names.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return nil, err
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: inside{network, address}, Err: err}
}

func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, fmt.Errorf("%s: only TCP is carried to an existing cluster", network)
	}
	to, err := c.find(ctx, address)
	if err != nil {
		return nil, err
	}
	direct := net.JoinHostPort(to.ip, strconv.Itoa(to.port))
	var first net.Conn
	c.way.once.Do(func() {
		dialer := net.Dialer{Timeout: directTimeout}
		if first, err = dialer.DialContext(ctx, network, direct); err != nil {
			c.way.forward = true
		}
	})
	switch {
	case first != nil:
		return first, nil
	case !c.way.forward:
		return new(net.Dialer).DialContext(ctx, network, direct)
	}
	return c.forward(ctx, to)
}

// Forwards says whether connections go through the API server.
func (c *Cluster) Forwards() bool { return c.way.forward }

// find is the pod behind an address: a pod's own, or one ready pod of a Service's, as kube-proxy would choose.
func (c *Cluster) find(ctx context.Context, address string) (endpoint, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("port %q: %w", text, err)
	}
	if net.ParseIP(host) == nil {
		name, namespace, err := serviceName(host)
		if err != nil {
			return endpoint{}, err
		}
		s, err := c.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return endpoint{}, err
		}
		return c.behind(ctx, s, port)
	}
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.podIP=" + host})
	if err != nil {
		return endpoint{}, err
	}
	for _, p := range pods.Items {
		if p.Status.PodIP == host && !p.Spec.HostNetwork {
			return endpoint{p.Namespace, p.Name, host, port}, nil
		}
	}
	return c.byClusterIP(ctx, host, port)
}

func (c *Cluster) byClusterIP(ctx context.Context, ip string, port int) (endpoint, error) {
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return endpoint{}, err
	}
	for i := range services.Items {
		if services.Items[i].Spec.ClusterIP == ip {
			return c.behind(ctx, &services.Items[i], port)
		}
	}
	return endpoint{}, fmt.Errorf("no pod and no Service has the address %s", ip)
}

// serviceName reads NAME.NAMESPACE, also with .svc and a domain behind it.
func serviceName(host string) (name, namespace string, err error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return "", "", fmt.Errorf("%s: want an address, or a Service as NAME.NAMESPACE.svc", host)
	}
	return parts[0], parts[1], nil
}

// behind chooses one of the ready endpoints of a Service.
func (c *Cluster) behind(ctx context.Context, s *corev1.Service, port int) (endpoint, error) {
	name, found := "", false
	for _, p := range s.Spec.Ports {
		if int(p.Port) == port {
			name, found = p.Name, true
		}
	}
	if !found {
		return endpoint{}, fmt.Errorf("service %s/%s has no port %d", s.Namespace, s.Name, port)
	}
	slices, err := c.client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	if err != nil {
		return endpoint{}, err
	}
	var all []endpoint
	for i := range slices.Items {
		all = append(all, readyIn(&slices.Items[i], name)...)
	}
	if len(all) == 0 {
		return endpoint{}, fmt.Errorf("service %s/%s has no ready endpoint", s.Namespace, s.Name)
	}
	return all[rand.IntN(len(all))], nil //nolint:gosec // as kube-proxy: any
}

func readyIn(slice *discoveryv1.EndpointSlice, port string) []endpoint {
	var out []endpoint
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name != nil && *p.Name != port {
			continue
		}
		for _, e := range slice.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && e.TargetRef != nil && e.TargetRef.Kind == "Pod" && len(e.Addresses) > 0 {
				out = append(out, endpoint{e.TargetRef.Namespace, e.TargetRef.Name, e.Addresses[0], int(*p.Port)})
			}
		}
	}
	return out
}

// forward opens a connection to a pod through the API server, for this one alone: what ends it ends no other.
func (c *Cluster) forward(ctx context.Context, to endpoint) (net.Conn, error) {
	url := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	classic := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, c.config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialer(tunnel, classic, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	type dialled struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{conn, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("port-forward to pod %s: %w", to.pod, d.err)
		}
		return streams(d.conn, to)
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// streams opens the two streams of one forwarded connection (KEP-4006, and before it the kubelet's own protocol).
func streams(conn httpstream.Connection, to endpoint) (net.Conn, error) {
	h := http.Header{}
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	h.Set(corev1.PortHeader, strconv.Itoa(to.port))
	h.Set(corev1.PortForwardRequestIDHeader, "0")
	failure, err := conn.CreateStream(h)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = failure.Close() // nothing is ever sent on it
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(h)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	near, far := net.Pipe() // deadlines, which a stream has none of
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close()
	}()
	go func() {
		_, _ = io.Copy(far, data)
		_ = far.Close()
		_ = conn.Close()
	}()
	go func() { // whatever the kubelet says here, the connection is no more
		if said, _ := io.ReadAll(failure); len(said) > 0 {
			_ = conn.Close()
			_ = far.Close()
		}
	}()
	return &forwarded{Conn: near, conn: conn, to: to}, nil
}

// forwarded is a connection whose end closes what it came through.
type forwarded struct {
	net.Conn
	conn httpstream.Connection
	to   endpoint
}

func (f *forwarded) Close() error { return errors.Join(f.Conn.Close(), f.conn.Close()) }

func (f *forwarded) RemoteAddr() net.Addr {
	return inside{"tcp", net.JoinHostPort(f.to.ip, strconv.Itoa(f.to.port))}
}

// LocalAddr is none that the pod would know.
func (f *forwarded) LocalAddr() net.Addr { return inside{"tcp", "port-forward"} }

// inside is an address of the cluster's network.
type inside struct{ network, address string }

func (a inside) Network() string { return a.network }
func (a inside) String() string  { return a.address }
