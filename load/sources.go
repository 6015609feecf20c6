package load

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// spreader dials as net.Dialer does, and where the local ports towards an address are used up, from this machine's
// further addresses. A connection is told apart by both its ends, so each address brings as many ports again.
type spreader struct {
	dial func(ctx context.Context, from netip.Addr, network, address string) (net.Conn, error)
	// sources are the addresses that may reach a destination, besides the one that the system takes by itself.
	sources func(to netip.Addr) []netip.Addr
}

func newSpreader() *spreader { return &spreader{dialFrom, sourcesFor} }

// DialContext is a ssh.DialFunc.
func (s *spreader) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, netip.Addr{}, network, address)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return conn, err
	}
	to, perr := netip.ParseAddrPort(address)
	if perr != nil {
		return nil, err
	}
	for _, from := range s.sources(to.Addr()) {
		if conn, again := s.dial(ctx, from, network, address); !errors.Is(again, syscall.EADDRNOTAVAIL) {
			return conn, again
		}
	}
	return nil, err
}

func dialFrom(ctx context.Context, from netip.Addr, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if from.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: from.AsSlice()}
		d.Control = latePort
	}
	return d.DialContext(ctx, network, address)
}

// loopbacks is how many further loopback addresses are used: the whole of 127.0.0.0/8 is this machine's.
const loopbacks = 16

// sourcesFor are further addresses of this machine that reach to: of loopback any, else those that an interface in
// the same network has.
func sourcesFor(to netip.Addr) (out []netip.Addr) {
	to = to.Unmap()
	if to.Is4() && to.IsLoopback() {
		for i := range byte(loopbacks) {
			out = append(out, netip.AddrFrom4([4]byte{127, 0, 1, i + 1}))
		}
		return out
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, on := range all {
		addrs, err := on.Addrs()
		if err != nil {
			continue
		}
		out = append(out, inNetworkOf(to, addrs)...)
	}
	return out
}

// inNetworkOf gives the addresses of an interface, if one of its networks has to.
func inNetworkOf(to netip.Addr, addrs []net.Addr) (out []netip.Addr) {
	reaches := false
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().Is4() != to.Is4() {
			continue
		}
		out = append(out, prefix.Addr())
		reaches = reaches || prefix.Contains(to)
	}
	if !reaches {
		return nil
	}
	return out
}
