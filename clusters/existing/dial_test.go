package existing

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/clusters"
)

func up(t *testing.T, f *fakeAPI, proxyURL string) *Cluster {
	t.Helper()
	p := &Provider{Kubeconfig: f.kubeconfig(t, proxyURL), Context: "theirs"}
	c, err := p.Up(t.Context(), clusters.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Down(context.Background(), "") })
	return c.(*Cluster)
}

// unreachable is a network on which pods have no route.
func unreachable(_ context.Context, network, _ string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EHOSTUNREACH}
}

func refuses(_ context.Context, network, _ string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
}

// silent drops what it is sent.
func silent(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func answers(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(far, far) }()
	return near, nil
}

// talk sends a line and wants it back.
func talk(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Fatalf("answer %q, %v", got, err)
	}
}

func TestTheWayIsTheOneThatWasAskedFor(t *testing.T) {
	for _, row := range []struct {
		why    string
		asked  bool // to go directly
		direct func(context.Context, string, string) (net.Conn, error)
		want   string
		err    error
	}{
		{why: "unasked, through the API server, though pods might be reached from here", direct: answers, want: "port-forward"},
		{why: "asked, from here", asked: true, direct: answers, want: "direct"},
		{why: "asked, from here, and nowhere else when that fails", asked: true, direct: unreachable, want: "direct", err: syscall.EHOSTUNREACH},
	} {
		t.Run(row.why, func(t *testing.T) {
			f := newFakeAPI(t)
			f.add("pods", pod("proxy", "10.9.0.7"))
			c := up(t, f, "")
			if c.direct = row.direct; row.asked {
				c.way = direct
			}
			conn, err := c.DialContext(t.Context(), "tcp", "10.9.0.7:3023")
			if !errors.Is(err, row.err) || err == nil && row.err != nil {
				t.Fatalf("error %v, want %v", err, row.err)
			}
			if err == nil {
				talk(t, conn)
			}
			if n := f.forwards.Load(); (n > 0) != (row.want == "port-forward") {
				t.Errorf("%d port-forwards, the way is %s", n, row.want)
			}
			facts, err := c.Facts(t.Context())
			if err != nil || facts.Reach != row.want || facts.Owned {
				t.Errorf("reach %q, owned %t, %v; want %q and not ours", facts.Reach, facts.Owned, err, row.want)
			}
		})
	}
}

func TestAPIServerIsNotAskedFromHere(t *testing.T) {
	port := echoes(t)
	f := newFakeAPI(t)
	f.add("pods", pod("proxy", "127.0.0.1"))
	f.add("services", service("proxy", "10.8.0.1", 443))
	f.add("endpointslices", slice("proxy", int32(port), "proxy", "127.0.0.1"))
	c := up(t, f, "")
	c.way = direct
	text := strconv.Itoa(port)
	for i, address := range []string{"127.0.0.1:" + text, "proxy.teleport.svc:443", "proxy.teleport.svc.cluster.local.:443", "proxy.teleport:443", "10.8.0.1:443", "127.0.0.1:" + text} {
		conn, err := c.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		talk(t, conn)
		f.away.Store(i >= 0) // from the second on nobody answers
	}
	if _, err := c.DialContext(t.Context(), "tcp", "127.0.0.2:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("an address that the watch does not know: %v, want it tried", err)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	f := newFakeAPI(t)
	f.add("services", service("proxy", "10.8.0.1", 443), service("headless", "None", 443))
	c := up(t, f, "")
	for address, want := range map[string]string{
		"10.9.0.9:1":                "address 10.9.0.9: neither a pod nor a Service has it",
		"none.teleport.svc:443":     "service teleport/none: neither",
		"proxy.teleport.svc:1":      "service teleport/proxy has no port 1",
		"proxy.teleport.svc:443":    "service teleport/proxy has no ready endpoint",
		"headless.teleport.svc:443": "service teleport/headless has no ready endpoint",
		"proxy:443":                 "want an address, or a Service as NAME.NAMESPACE.svc",
		"proxy.teleport.svc:https":  `port "https"`,
	} {
		_, err := c.DialContext(t.Context(), "tcp", address)
		if op, ok := errors.AsType[*net.OpError](err); !ok || !strings.Contains(op.Error(), want) {
			t.Errorf("%s: %v, want an OpError with %q", address, err, want)
		}
	}
	if _, err := c.DialContext(t.Context(), "udp", "10.9.0.9:53"); err == nil || !strings.Contains(err.Error(), "only TCP") {
		t.Errorf("udp: %v", err)
	}
}

func TestWhatWasJustMadeIsWaitedFor(t *testing.T) {
	f := newFakeAPI(t)
	c := up(t, f, "")
	c.direct = answers
	time.AfterFunc(100*time.Millisecond, func() { f.add("pods", pod("proxy", "10.9.0.7")) })
	conn, err := c.DialContext(t.Context(), "tcp", "10.9.0.7:3023")
	if err != nil {
		t.Fatal(err)
	}
	talk(t, conn)
}

func TestForwardTellsWhatThePodSaid(t *testing.T) {
	for _, row := range []struct {
		why, said string
		want      error
	}{
		{"nothing listens there", "error forwarding port 3023 to pod x: dial tcp4 127.0.0.1:3023: connect: connection refused", syscall.ECONNREFUSED},
		{"it was cut", "error forwarding port 3023: read tcp 127.0.0.1:5->127.0.0.1:3023: connection reset by peer", syscall.ECONNRESET},
		{"another reason is told as it is", "sandbox is not running", nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			f := newFakeAPI(t)
			f.add("pods", pod("proxy", "10.9.0.7"))
			f.listen = func(string) error { return errors.New(row.said) }
			c := up(t, f, "")
			c.direct = unreachable
			conn, err := c.DialContext(t.Context(), "tcp", "10.9.0.7:3023")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = io.ReadAll(conn)
			op, ok := errors.AsType[*net.OpError](err)
			if !ok || !strings.Contains(op.Error(), row.said) || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("%v, want an OpError that says %q", err, row.said)
			}
		})
	}
}

func TestUpSaysWhatIsMissing(t *testing.T) {
	for _, row := range []struct{ why, context, forbidden, want string }{
		{"no context", "", "", "no context is named"},
		{"another context", "ours", "", `no context "ours"; there are: theirs`},
		{"no right", "theirs", "endpointslices", "may not list and watch endpointslices in all namespaces"},
	} {
		t.Run(row.why, func(t *testing.T) {
			f := newFakeAPI(t)
			f.forbidden = row.forbidden
			_, err := (&Provider{Kubeconfig: f.kubeconfig(t, ""), Context: row.context}).Up(t.Context(), clusters.Spec{})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
