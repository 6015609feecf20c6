package loopback

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	const n = 200
	all, err := Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	first := clientPorts(t)
	seen := map[string]bool{}
	for _, a := range all {
		at, err := netip.ParseAddrPort(a)
		if err != nil || !at.Addr().IsLoopback() || at.Port() >= first {
			t.Errorf("%s: %v; clients' ports begin at %d", a, err, first)
		}
		if seen[a] {
			t.Errorf("%s twice", a)
		}
		seen[a] = true
	}
	if len(seen) != n {
		t.Errorf("%d addresses", len(seen))
	}
	l, err := net.Listen("tcp", all[0])
	if err != nil {
		t.Fatalf("it is not free: %v", err)
	}
	l.Close()
}

// clientPorts is the first port that the system gives to clients.
func clientPorts(t *testing.T) uint16 {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return highest
	}
	first, err := netip.ParseAddrPort("0.0.0.0:" + strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	if first.Port() < highest {
		t.Skipf("this machine gives clients ports from %d on", first.Port())
	}
	return first.Port()
}
