package cri

import (
	"fmt"
	"net/netip"
	"sync"
)

// addresses hands out a node's pod addresses, going round the range so that an
// address just given back is the last to be used again.
type addresses struct {
	mu     sync.Mutex
	prefix netip.Prefix
	last   netip.Addr
	used   map[netip.Addr]bool
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
	return &addresses{prefix: p, last: p.Addr().Next(), used: map[netip.Addr]bool{}}, nil
}

func (a *addresses) allocate() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := a.prefix.Addr().Next().Next()
	next := a.last
	for {
		if next = next.Next(); !a.prefix.Contains(next.Next()) {
			next = first
		}
		if !a.used[next] {
			a.used[next], a.last = true, next
			return next, nil
		}
		if next == a.last {
			return netip.Addr{}, fmt.Errorf("no address left in %s: %d pods hold one", a.prefix, len(a.used))
		}
	}
}

func (a *addresses) release(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, ip)
}
