package cri

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestResolvConf(t *testing.T) {
	got := string(resolvConf(&runtimeapi.DNSConfig{Servers: []string{"1.1.1.1", "8.8.8.8"}, Searches: []string{"a", "b"}, Options: []string{"ndots:5"}}))
	if want := "search a b\nnameserver 1.1.1.1\nnameserver 8.8.8.8\noptions ndots:5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(resolvConf(&runtimeapi.DNSConfig{})); got != "" {
		t.Errorf("nothing asked for: %q", got)
	}
}

func TestNamespacedSysctls(t *testing.T) {
	for name, want := range map[string]bool{
		"net.core.somaxconn": true, "net/ipv4/conf/eth0.1/rp_filter": true, "kernel.shmmax": true, "kernel.sem": true, "fs.mqueue.msg_max": true,
		"kernel.panic": false, "vm.swappiness": false, "network.x": false, "kernel.semx": false,
	} {
		if got := namespaced(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := setSysctls(map[string]string{"net/../vm/swappiness": "1"}); err == nil {
		t.Error("a path that climbs was written")
	}
}

func TestHostPortElements(t *testing.T) {
	pod := netip.MustParseAddr("10.244.1.2")
	h := newHostPorts()
	fake := knftables.NewFake(knftables.IPv4Family, hostPortTable)
	h.connect = func() (knftables.Interface, error) { return fake, nil }
	s := &sandbox{ip: pod, cfg: &runtimeapi.PodSandboxConfig{PortMappings: []*runtimeapi.PortMapping{
		{HostPort: 53, ContainerPort: 5353, Protocol: runtimeapi.Protocol_UDP},
		{HostPort: 80, ContainerPort: 8080, HostIp: "10.0.0.1"},
		{ContainerPort: 9},
	}}}
	ctx := context.Background()
	must(t, h.open(ctx, s))
	dump := fake.Dump()
	for _, want := range []string{
		"add element ip shakedown-hostports any-address { udp . 53 : 10.244.1.2 . 5353 }",
		"add element ip shakedown-hostports one-address { 10.0.0.1 . tcp . 80 : 10.244.1.2 . 8080 }",
		"add element ip shakedown-hostports hairpins { 10.244.1.2 . 10.244.1.2 }",
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("missing %q in\n%s", want, dump)
		}
	}
	must(t, h.close(ctx, s))
	if strings.Contains(fake.Dump(), "add element") {
		t.Errorf("left:\n%s", fake.Dump())
	}
	if _, err := portElements([]*runtimeapi.PortMapping{{HostPort: 1, HostIp: "::1"}}, pod); err == nil {
		t.Error("an IPv6 host address is refused")
	}
	none := &sandbox{ip: pod, cfg: &runtimeapi.PodSandboxConfig{}}
	h.connect, h.nft = nil, nil
	must(t, h.open(ctx, none)) // does not even connect
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b) c) S 7 42 42 0 -1 4194304 100 200 3 400 11 12 13 14 20 0 1 0 5 4096 9 18446744073709551615\n"
	got, err := parseStat([]byte(line))
	must(t, err)
	want := procStat{state: 'S', ppid: 7, ticks: 50, residentPages: 9, virtualBytes: 4096, minflt: 100, majflt: 3}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "1 (x) S 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
