package cri

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/knftables"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hostPorts leads ports of the node to pods, by one nftables table. Only a pod
// that asks for a host port costs a run of the nft program.
type hostPorts struct {
	connect func() (knftables.Interface, error)

	mu  sync.Mutex
	nft knftables.Interface // nil before the first use
}

const hostPortTable = "shakedown-hostports"

func newHostPorts() *hostPorts {
	return &hostPorts{connect: func() (knftables.Interface, error) {
		return knftables.New(knftables.IPv4Family, hostPortTable)
	}}
}

// Names inside the table.
const (
	anyAddressPorts = "any-address" // protocol . port : pod . port
	oneAddressPorts = "one-address" // address . protocol . port : pod . port
	hairpins        = "hairpins"    // pod . pod: a pod that calls its own host port
)

// open puts the pod's host ports in force.
func (h *hostPorts) open(ctx context.Context, s *sandbox) error {
	elements, err := portElements(s.cfg.GetPortMappings(), s.ip)
	if err != nil || len(elements) == 0 {
		return err
	}
	nft, err := h.table(ctx)
	if err != nil {
		return fmt.Errorf("host ports: %w", err)
	}
	tx := nft.NewTransaction()
	for _, e := range elements {
		// Create, not add: the same port for two pods is an error.
		tx.Create(e)
	}
	if err := nft.Run(ctx, tx); err != nil {
		if knftables.IsAlreadyExists(err) {
			return fmt.Errorf("host ports %s: one of them is another pod's", describePorts(s.cfg.GetPortMappings()))
		}
		return fmt.Errorf("host ports: %w", err)
	}
	s.ports = true
	return nil
}

// close takes them back.
func (h *hostPorts) close(ctx context.Context, s *sandbox) error {
	elements, err := portElements(s.cfg.GetPortMappings(), s.ip)
	if err != nil {
		return err
	}
	nft, err := h.table(ctx)
	if err != nil {
		return fmt.Errorf("host ports: %w", err)
	}
	tx := nft.NewTransaction()
	for _, e := range elements {
		tx.Delete(&knftables.Element{Map: e.Map, Set: e.Set, Key: e.Key})
	}
	if err := nft.Run(ctx, tx); err != nil && !knftables.IsNotFound(err) {
		return fmt.Errorf("host ports: %w", err)
	}
	return nil
}

// table makes the table at its first use.
func (h *hostPorts) table(ctx context.Context) (knftables.Interface, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nft != nil {
		return h.nft, nil
	}
	nft, err := h.connect()
	if err != nil {
		return nil, fmt.Errorf("the nft program is needed: %w", err)
	}
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Map{Name: anyAddressPorts, Type: "inet_proto . inet_service : ipv4_addr . inet_service"})
	tx.Add(&knftables.Map{Name: oneAddressPorts, Type: "ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service"})
	tx.Add(&knftables.Set{Name: hairpins, Type: "ipv4_addr . ipv4_addr"})
	for _, hook := range []knftables.BaseChainHook{knftables.PreroutingHook, knftables.OutputHook} {
		chain := string(hook)
		tx.Add(&knftables.Chain{Name: chain, Type: knftables.PtrTo(knftables.NATType), Hook: knftables.PtrTo(hook), Priority: knftables.PtrTo(knftables.DNATPriority)})
		tx.Flush(&knftables.Chain{Name: chain})
		tx.Add(&knftables.Rule{Chain: chain, Rule: "dnat ip to ip daddr . meta l4proto . th dport map @" + oneAddressPorts})
		tx.Add(&knftables.Rule{Chain: chain, Rule: "fib daddr type local dnat ip to meta l4proto . th dport map @" + anyAddressPorts})
	}
	tx.Add(&knftables.Chain{Name: "postrouting", Type: knftables.PtrTo(knftables.NATType), Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority)})
	tx.Flush(&knftables.Chain{Name: "postrouting"})
	tx.Add(&knftables.Rule{Chain: "postrouting", Rule: "ip saddr . ip daddr @" + hairpins + " masquerade"})
	if err := nft.Run(ctx, tx); err != nil {
		return nil, err
	}
	h.nft = nft
	return nft, nil
}

// portElements translates the pod's mappings; those without a host port ask for
// nothing.
func portElements(mappings []*runtimeapi.PortMapping, pod netip.Addr) ([]*knftables.Element, error) {
	var out []*knftables.Element
	for _, m := range mappings {
		if m.GetHostPort() == 0 {
			continue
		}
		proto := strings.ToLower(m.GetProtocol().String())
		e := &knftables.Element{
			Map:   anyAddressPorts,
			Key:   []string{proto, strconv.Itoa(int(m.HostPort))},
			Value: []string{pod.String(), strconv.Itoa(int(m.ContainerPort))},
		}
		if m.HostIp != "" && m.HostIp != "0.0.0.0" {
			ip, err := netip.ParseAddr(m.HostIp)
			if err != nil || !ip.Is4() {
				return nil, fmt.Errorf("host port %d: hostIP %q is not an IPv4 address", m.HostPort, m.HostIp)
			}
			e.Map, e.Key = oneAddressPorts, append([]string{ip.String()}, e.Key...)
		}
		out = append(out, e)
	}
	if len(out) > 0 {
		out = append(out, &knftables.Element{Set: hairpins, Key: []string{pod.String(), pod.String()}})
	}
	return out, nil
}

func describePorts(mappings []*runtimeapi.PortMapping) string {
	var ports []string
	for _, m := range mappings {
		if m.GetHostPort() != 0 {
			ports = append(ports, fmt.Sprintf("%d/%s", m.HostPort, strings.ToLower(m.GetProtocol().String())))
		}
	}
	return strings.Join(ports, ", ")
}
