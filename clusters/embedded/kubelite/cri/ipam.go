package cri

import (
	"fmt"
	"net/netip"
	"sync"
)

// addresses hands out a node's pod addresses: those never used first, then those
// given back, the longest free first.
type addresses struct {
	mu     sync.Mutex
	prefix netip.Prefix
	fresh  netip.Addr // the next never used
	held   map[netip.Addr]bool
	back   []netip.Addr // given back, oldest first
}

// newAddresses leaves out the network address and the one after it, which by
// custom is a gateway's, and the last, which is the broadcast address.
func newAddresses(p netip.Prefix) (*addresses, error) {
	if !p.IsValid() || !p.Addr().Is4() {
		return nil, fmt.Errorf("pod range %q: want an IPv4 prefix such as 10.244.1.0/24", p)
	}
	if p.Bits() > 29 {
		return nil, fmt.Errorf("pod range %s: want a /29 or larger", p)
	}
	p = p.Masked()
	return &addresses{prefix: p, fresh: p.Addr().Next().Next(), held: map[netip.Addr]bool{}}, nil
}

func (a *addresses) allocate() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ip := a.fresh
	switch {
	case a.prefix.Contains(ip.Next()): // not yet the broadcast address
		a.fresh = ip.Next()
	case len(a.back) > 0:
		ip, a.back = a.back[0], a.back[1:]
	default:
		return netip.Addr{}, fmt.Errorf("no address left in %s: %d pods hold one", a.prefix, len(a.held))
	}
	a.held[ip] = true
	return ip, nil
}

// release takes back an address that is held; any other is ignored.
func (a *addresses) release(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[ip] {
		delete(a.held, ip)
		a.back = append(a.back, ip)
	}
}
