package boot

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The wire is what joins the nodes: the cluster's own network namespace routes
// between them over one veth pair each. A node is a namespace of its own, with
// its address, its pods' links and its own kube-proxy, so that what a cable, a
// power switch or a firewall does to a machine can be done to it.

// openWire prepares the cluster's own namespace.
func openWire() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	for _, a := range []string{apiAddress, wireGateway} {
		if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(a)}); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	// Clients in this namespace reach Services without any other route: the
	// packet only has to leave for kube-proxy to rewrite it.
	for _, r := range []string{serviceCIDR, balancerCIDR} {
		_, dst, err := net.ParseCIDR(r)
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Src: net.ParseIP(apiAddress)}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route to %s: %w", r, err)
		}
	}
	return forwardPackets()
}

// forwardPackets makes the calling thread's network namespace a router:
// /proc/sys/net is that of the thread which opens it.
func forwardPackets() error {
	for _, s := range []struct{ path, value string }{
		{"/proc/sys/net/ipv4/ip_forward", "1"},
		{"/proc/sys/net/ipv4/conf/all/rp_filter", "0"},
		{"/proc/sys/net/ipv4/conf/default/rp_filter", "0"},
	} {
		if err := os.WriteFile(s.path, []byte(s.value), 0); err != nil {
			return fmt.Errorf("sysctl: %w", err)
		}
	}
	return nil
}

// plugIn makes the node's network namespace and joins it to the wire. The
// caller owns the handle.
func plugIn(n nodePlan) (netns.NsHandle, error) {
	ns, err := newNamespace()
	if err != nil {
		return ns, fmt.Errorf("network namespace of %s: %w", n.name, err)
	}
	if err := joinWire(n, ns); err != nil {
		ns.Close()
		return netns.None(), fmt.Errorf("link of %s: %w", n.name, err)
	}
	return ns, nil
}

// newNamespace makes a network namespace that routes. It is made on a thread
// that is thrown away, since a thread cannot be trusted after it changed house.
func newNamespace() (netns.NsHandle, error) {
	type result struct {
		ns  netns.NsHandle
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		if err == nil {
			err = forwardPackets()
		}
		done <- result{ns, err}
	}()
	r := <-done
	return r.ns, r.err
}

func joinWire(n nodePlan, ns netns.NsHandle) error {
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: n.link},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsFd(ns),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	near, err := netlink.LinkByName(n.link)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(near); err != nil {
		return fmt.Errorf("%s up: %w", n.link, err)
	}
	if err := configureFarEnd(n, ns); err != nil {
		return err
	}
	return routeTo(n, near.Attrs().Index)
}

func configureFarEnd(n nodePlan, ns netns.NsHandle) error {
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	far, err := h.LinkByName("eth0")
	if err != nil {
		return err
	}
	for _, l := range []netlink.Link{lo, far} {
		if err := h.LinkSetUp(l); err != nil {
			return fmt.Errorf("%s up: %w", l.Attrs().Name, err)
		}
	}
	if err := h.AddrAdd(far, &netlink.Addr{IPNet: host(n.address.String())}); err != nil {
		return fmt.Errorf("address %s: %w", n.address, err)
	}
	gateway := host(wireGateway)
	index := far.Attrs().Index
	if err := h.RouteAdd(&netlink.Route{LinkIndex: index, Dst: gateway, Scope: unix.RT_SCOPE_LINK}); err != nil {
		return fmt.Errorf("route to the gateway: %w", err)
	}
	if err := h.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway.IP}); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	return nil
}

// routeTo tells the cluster's namespace where the node and its pods are.
func routeTo(n nodePlan, link int) error {
	self := host(n.address.String())
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link, Dst: self, Scope: unix.RT_SCOPE_LINK, Src: net.ParseIP(apiAddress)}); err != nil {
		return fmt.Errorf("route to %s: %w", self, err)
	}
	_, pods, err := net.ParseCIDR(n.pods.String())
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link, Dst: pods, Gw: self.IP, Flags: int(netlink.FLAG_ONLINK), Src: net.ParseIP(apiAddress)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route to %s: %w", pods, err)
	}
	return nil
}

// unplug takes the node's link away; its namespace follows when the last
// process in it is gone.
func unplug(n nodePlan) error {
	link, err := netlink.LinkByName(n.link)
	if err != nil {
		return nil // went with the namespace already
	}
	return netlink.LinkDel(link)
}

// host is the single-address network of a.
func host(a string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(a).To4(), Mask: net.CIDRMask(32, 32)}
}
