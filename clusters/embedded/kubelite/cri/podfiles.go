package cri

import (
	"fmt"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// writeFiles makes the files that the pod's containers share under /etc, apart
// from hosts, which the kubelet keeps.
func (s *sandbox) writeFiles() error {
	if err := os.WriteFile(s.path("hostname"), []byte(s.hostname()+"\n"), 0o644); err != nil {
		return err
	}
	resolv := resolvConf(s.cfg.GetDnsConfig())
	if s.cfg.GetDnsConfig() == nil {
		// The pod asks for the node's own.
		resolv, _ = os.ReadFile("/etc/resolv.conf")
	}
	return os.WriteFile(s.path("resolv.conf"), resolv, 0o644)
}

func resolvConf(dns *runtimeapi.DNSConfig) []byte {
	var b strings.Builder
	if len(dns.GetSearches()) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(dns.Searches, " "))
	}
	for _, server := range dns.GetServers() {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(dns.GetOptions()) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(dns.Options, " "))
	}
	return []byte(b.String())
}
