package cri

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// gateway is the next hop of every pod, an address nobody needs to own: both
// ends of the pod's link have permanent neighbour entries for each other, so no
// ARP is spoken and neither proxy_arp nor an address on the node is needed.
var gateway = netip.MustParseAddr("169.254.1.1")

// hostMAC is the node's end of every pod link; links are point to point, so it
// may be the same on all.
var hostMAC = net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}

// podMAC is made from the address, as the CNI bridge plugin does.
func podMAC(ip netip.Addr) net.HardwareAddr {
	b := ip.As4()
	return append(net.HardwareAddr{0x0a, 0x58}, b[:]...)
}

// network connects pods to the node's network namespace.
type network struct {
	node   *netlink.Handle
	source net.IP // what the node's own packets to pods come from; nil: the kernel chooses
}

func newNetwork(source netip.Addr) (*network, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	n := &network{node: h}
	if source.IsValid() {
		n.source = source.AsSlice()
	}
	return n, nil
}

func (n *network) Close() error {
	n.node.Close()
	return nil
}

func host(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

// connect makes the pod's eth0 and the node's end, named name. pod is a handle
// opened inside netns.
func (n *network) connect(pod *netlink.Handle, netns *os.File, name string, ip netip.Addr) error {
	link := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: name, HardwareAddr: hostMAC},
		PeerName:         "eth0",
		PeerHardwareAddr: podMAC(ip),
		PeerNamespace:    netlink.NsFd(netns.Fd()),
	}
	if err := n.node.LinkAdd(link); err != nil {
		return fmt.Errorf("add link %s: %w", name, err)
	}
	if err := setUpPodLink(pod, ip); err != nil {
		n.disconnect(name)
		return err
	}
	if err := n.setUpHostLink(link, ip); err != nil {
		n.disconnect(name)
		return err
	}
	return nil
}

func setUpPodLink(pod *netlink.Handle, ip netip.Addr) error {
	eth0, err := pod.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("pod link: %w", err)
	}
	index := eth0.Attrs().Index
	via := &net.IPNet{IP: gateway.AsSlice(), Mask: net.CIDRMask(32, 32)}
	steps := []struct {
		what string
		do   func() error
	}{
		{"address", func() error { return pod.AddrAdd(eth0, &netlink.Addr{IPNet: host(ip)}) }},
		{"up", func() error { return pod.LinkSetUp(eth0) }},
		{"route to the gateway", func() error {
			return pod.RouteAdd(&netlink.Route{LinkIndex: index, Dst: via, Scope: netlink.SCOPE_LINK})
		}},
		{"neighbour", func() error { return pod.NeighAdd(neighbour(index, gateway, hostMAC)) }},
		{"default route", func() error {
			return pod.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway.AsSlice()})
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("pod link: %s: %w", s.what, err)
		}
	}
	return nil
}

func (n *network) setUpHostLink(link netlink.Link, ip netip.Addr) error {
	index := link.Attrs().Index
	if err := n.node.LinkSetUp(link); err != nil {
		return fmt.Errorf("node link up: %w", err)
	}
	route := &netlink.Route{LinkIndex: index, Dst: host(ip), Scope: netlink.SCOPE_LINK, Src: n.source}
	if err := n.node.RouteReplace(route); err != nil {
		return fmt.Errorf("route to the pod: %w", err)
	}
	if err := n.node.NeighSet(neighbour(index, ip, podMAC(ip))); err != nil {
		return fmt.Errorf("neighbour entry of the pod: %w", err)
	}
	return nil
}

func neighbour(index int, ip netip.Addr, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: mac}
}

// disconnect takes the link away at once; the namespace itself goes when the
// kernel gets round to it.
func (n *network) disconnect(name string) error {
	link, err := n.node.LinkByName(name)
	if err != nil {
		if _, gone := err.(netlink.LinkNotFoundError); gone {
			return nil
		}
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := n.node.LinkDel(link); err != nil {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}
