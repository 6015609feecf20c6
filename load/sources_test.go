package load

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/scenarios"
)

func TestSpread(t *testing.T) {
	none := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	tests := []struct {
		because string
		fails   map[netip.Addr]error
		tried   []string
		err     error
	}{
		{"there are ports left", nil, []string{"invalid IP"}, nil},
		{"the first address is used up", map[netip.Addr]error{{}: none}, []string{"invalid IP", "10.0.0.1"}, nil},
		{"the second too", map[netip.Addr]error{{}: none, a: none}, []string{"invalid IP", "10.0.0.1", "10.0.0.2"}, nil},
		{"all are", map[netip.Addr]error{{}: none, a: none, b: none}, []string{"invalid IP", "10.0.0.1", "10.0.0.2"}, syscall.EADDRNOTAVAIL},
		{"nobody listens: that is no matter of ports", map[netip.Addr]error{{}: refused}, []string{"invalid IP"}, syscall.ECONNREFUSED},
		{"nor is it from the second address", map[netip.Addr]error{{}: none, a: refused}, []string{"invalid IP", "10.0.0.1"}, syscall.ECONNREFUSED},
	}
	for _, tt := range tests {
		var tried []string
		s := &spreader{
			dial: func(_ context.Context, from netip.Addr, _, _ string) (net.Conn, error) {
				tried = append(tried, from.String())
				return nil, tt.fails[from]
			},
			sources: func(netip.Addr) []netip.Addr { return []netip.Addr{a, b} },
		}
		_, err := s.DialContext(t.Context(), "tcp", "10.0.0.9:3080")
		if diff := cmp.Diff(tt.tried, tried); diff != "" || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, tried (-want +got):\n%s", tt.because, err, diff)
		}
	}
}

// TestDialFrom: another loopback address works, and the same port may be used from each.
func TestDialFrom(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	from := sourcesFor(netip.MustParseAddr("127.0.0.1"))
	if len(from) != loopbacks {
		t.Fatalf("%d addresses", len(from))
	}
	conn, err := dialFrom(t.Context(), from[1], "tcp", ln.Addr().String())
	if err != nil {
		t.Skip(err) // not everywhere are all of 127.0.0.0/8 this machine
	}
	defer conn.Close()
	if got := conn.LocalAddr().(*net.TCPAddr).IP.String(); got != from[1].String() {
		t.Errorf("dialled from %s, not from %s", got, from[1])
	}
}

func TestInNetworkOf(t *testing.T) {
	network := func(text string) net.Addr {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	addrs := []net.Addr{network("10.1.0.2/16"), network("10.1.0.3/32"), network("fd00::2/64")}
	got := inNetworkOf(netip.MustParseAddr("10.1.7.7"), addrs)
	if diff := cmp.Diff([]string{"10.1.0.2", "10.1.0.3"}, texts(got)); diff != "" {
		t.Error(diff)
	}
	if got := inNetworkOf(netip.MustParseAddr("10.2.0.1"), addrs); got != nil {
		t.Errorf("another network: %v", got)
	}
}

func texts(in []netip.Addr) (out []string) {
	for _, a := range in {
		out = append(out, a.String())
	}
	return out
}

func TestRoom(t *testing.T) {
	tests := []struct {
		because  string
		room     Room
		held     int
		sessions int
		wrong    int
	}{
		{"enough of all", Room{Files: 20000, Ports: 28000, Memory: 50000}, 5000, 20000, 0},
		{"too few files", Room{Files: 1000, Ports: 28000, Memory: 50000}, 5000, 1000, 1},
		{"too few ports", Room{Files: 100000, Ports: 28000, Memory: 50000}, 30000, 28000, 1},
		{"too little of all", Room{Files: 1, Ports: 2, Memory: 3}, 5000, 1, 3},
		{"what is not known is no limit", Room{Ports: 28000}, 5000, 28000, 0},
	}
	for _, tt := range tests {
		if got := tt.room.Sessions(); got != tt.sessions {
			t.Errorf("%s: room for %d sessions, want %d", tt.because, got, tt.sessions)
		}
		if got := tt.room.limits(tt.held); len(got) != tt.wrong {
			t.Errorf("%s: %v", tt.because, got)
		}
	}
}

// TestConnections: channels share them.
func TestConnections(t *testing.T) {
	p := plan(scenarios.Session{Behaviour: "channels", Channels: 10}, scenarios.Arrival{Closed: &scenarios.Closed{Held: 7}})
	capped := scenarios.Arrival{Open: constant(5), MaxHeld: 30}
	fewer := scenarios.Arrival{Open: constant(5), MaxHeld: 3000}
	burst := scenarios.Arrival{Open: &scenarios.Open{Legs: []scenarios.Leg{{From: 1, To: 9, For: scenarios.Span(time.Minute)}, {From: 1, To: 1}}}}
	for _, a := range []scenarios.Arrival{capped, fewer, burst} {
		p.Streams = append(p.Streams, plan(idle(10*time.Second), a).Streams[0])
	}
	if got := connections(p); got != 7+30+50+90 {
		t.Errorf("%d connections", got)
	}
}
