package boot

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// The addresses of every cluster. Each lives in a network namespace of its
// own, so two clusters use the same ones without seeing each other.
const (
	apiAddress    = "10.0.0.1"              // API server, DNS and whoever works in the cluster's own namespace
	apiPort       = 6443                    //
	wireGateway   = "169.254.0.1"           // what nodes route through; answers ARP on every node's link
	serviceCIDR   = "10.96.0.0/16"          //
	apiServiceIP  = "10.96.0.1"             // the first of serviceCIDR, as everywhere
	dnsServiceIP  = "10.96.0.10"            //
	balancerCIDR  = "10.97.0.0/16"          // addresses of Services of type LoadBalancer
	podCIDR       = "10.244.0.0/16"         // a /24 of it for each node
	clusterDomain = "cluster.local"         //
	etcdURL       = "http://127.0.0.1:2379" // loopback of a namespace that no pod is in
)

// maxNodes is what a /24 of node addresses and of pod ranges allows.
const maxNodes = 250

// stateDir is the cluster's private file system, a tmpfs that only its own
// mount namespace has.
const stateDir = "/run/shakedown"

func pkiDir() string                   { return filepath.Join(stateDir, "pki") }
func logDir() string                   { return filepath.Join(stateDir, "logs") }
func kubeconfigPath(who string) string { return filepath.Join(stateDir, "kubeconfig", who) }
func imagesSocket() string             { return filepath.Join(stateDir, "images.sock") }
func storageDir() string               { return filepath.Join(stateDir, "storage") }
func nodeDir(name string) string       { return filepath.Join(stateDir, "nodes", name) }

// nodePlan is one node before anything of it exists.
type nodePlan struct {
	name    string
	address netip.Addr   // on the wire
	pods    netip.Prefix // its share of podCIDR
	link    string       // its end of the wire, as named in the cluster's namespace
}

// planNode is the nth node, counted from 1.
func planNode(n int) nodePlan {
	return nodePlan{
		name:    fmt.Sprintf("node%d", n),
		address: netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}),
		pods:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24),
		link:    fmt.Sprintf("node%d", n),
	}
}
