package cri

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestAddresses(t *testing.T) {
	a, err := newAddresses(netip.MustParsePrefix("10.1.2.8/29"))
	must(t, err)
	var got []string
	for {
		ip, err := a.allocate()
		if err != nil {
			break
		}
		got = append(got, ip.String())
	}
	if len(got) != 5 || got[0] != "10.1.2.10" || got[4] != "10.1.2.14" {
		t.Errorf("a /29 gives %v, want .10 to .14", got)
	}
	a.release(netip.MustParseAddr("10.1.2.12"))
	if ip, err := a.allocate(); err != nil || ip.String() != "10.1.2.12" {
		t.Errorf("the one given back: %v %v", ip, err)
	}
	for _, bad := range []string{"10.1.2.0/30", "fd00::/64"} {
		if _, err := newAddresses(netip.MustParsePrefix(bad)); err == nil {
			t.Errorf("%s is no range for pods", bad)
		}
	}
	if _, err := newAddresses(netip.Prefix{}); err == nil {
		t.Error("no range is an error")
	}
}

// No address is held twice, all lie in the range, and one just given back is not
// the next unless it is the last there is.
func TestAddressesHeldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := netip.PrefixFrom(netip.MustParseAddr("10.9.0.0"), rapid.IntRange(24, 29).Draw(t, "bits"))
		a, err := newAddresses(p)
		if err != nil {
			t.Fatal(err)
		}
		size := 1<<(32-p.Bits()) - 3
		held := map[netip.Addr]bool{}
		var back netip.Addr
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				for ip := range held {
					a.release(ip)
					delete(held, ip)
					back = ip
					break
				}
				continue
			}
			ip, err := a.allocate()
			switch {
			case err != nil && len(held) < size:
				t.Fatalf("no address with %d of %d held: %v", len(held), size, err)
			case err != nil:
				continue
			case held[ip] || !p.Contains(ip):
				t.Fatalf("%s given, %v held", ip, held)
			case ip == back && size-len(held) > 1:
				t.Fatalf("%s used again while others were free longer", ip)
			}
			held[ip] = true
		}
	})
}
