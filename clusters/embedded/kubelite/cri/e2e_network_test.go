package cri

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (n *node) listenInPod(sandbox, address string) (l net.Listener) {
	n.t.Helper()
	n.mu.Lock()
	s := n.sandboxes[sandbox]
	n.mu.Unlock()
	must(n.t, onThread(func() (err error) {
		if err := s.enterNetwork(); err != nil {
			return err
		}
		l, err = net.Listen("tcp", address)
		return err
	}))
	n.t.Cleanup(func() { l.Close() })
	return l
}

func (n *node) ip(sandbox string) string {
	n.t.Helper()
	resp, err := n.PodSandboxStatus(context.Background(), sandbox, false)
	must(n.t, err)
	return resp.Status.Network.Ip
}

func TestE2ENetwork(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	n := newNode(t)
	a, _ := n.pod()
	b, podB := n.pod(func(p *runtimeapi.PodSandboxConfig) {
		p.Linux.Sysctls = map[string]string{"net.core.somaxconn": "77", "kernel.msgmax": "4096"}
	})
	l := n.listenInPod(a, "0.0.0.0:80")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "you are %s\n", c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", n.ip(a)+":80")
	must(t, err)
	line := make([]byte, 100)
	k, _ := c.Read(line)
	if got := string(line[:k]); got != "you are 10.0.0.1\n" {
		t.Errorf("the node to a pod: %q", got)
	}
	id := n.start(b, podB, config("main", fmt.Sprintf(`cat /proc/sys/net/core/somaxconn /proc/sys/kernel/msgmax; exec 3<>/dev/tcp/%s/80; cat <&3; ls /sys/class/net`, n.ip(a)),
		func(c *runtimeapi.ContainerConfig) { c.Command[0] = "/bin/bash" }))
	n.ends(id)
	if want := "77\n4096\nyou are " + n.ip(b) + "\neth0\nlo\n"; n.log(id) != want {
		t.Errorf("pod to pod: %q, want %q", n.log(id), want)
	}
	if _, err := n.RunPodSandbox(context.Background(), &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{Sysctls: map[string]string{"vm.swappiness": "1"}}}, ""); err == nil {
		t.Error("a sysctl of the whole machine was accepted")
	}
	ns, err := n.NetNS("uid1")
	must(t, err)
	ns.Close()
	before := n.ip(a)
	must(t, n.StopPodSandbox(context.Background(), a))
	must(t, n.StopPodSandbox(context.Background(), a))
	if n.ip(a) != "" {
		t.Error("a stopped pod still shows its address")
	}
	if _, err := n.NetNS("uid1"); err == nil {
		t.Error("a stopped pod still has a network namespace")
	}
	must(t, n.RemovePodSandbox(context.Background(), a))
	next, _ := n.pod()
	if n.ip(next) == before {
		t.Errorf("address %s was used again at once", before)
	}
	routes, err := os.ReadFile("/proc/net/route")
	must(t, err)
	if lines := strings.Count(string(routes), "\npod"); lines != 2 {
		t.Errorf("%d routes to pods, want 2:\n%s", lines, routes)
	}
}

func TestE2EHostPorts(t *testing.T) {
	if !inNamespacesOfItsOwn(t, 0) {
		return
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the nft program is not installed")
	}
	n := newNode(t)
	mapped := func(p *runtimeapi.PodSandboxConfig) {
		p.PortMappings = []*runtimeapi.PortMapping{
			{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 80, HostPort: 8081, HostIp: "10.0.0.1"}, {ContainerPort: 99},
		}
	}
	a, podA := n.pod(mapped)
	l := n.listenInPod(a, "0.0.0.0:80")
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a") }))
	for _, port := range []string{"8080", "8081"} {
		resp, err := http.Get("http://10.0.0.1:" + port)
		must(t, err)
		resp.Body.Close()
	}
	b, podB := n.pod()
	for sandbox, pod := range map[string]*runtimeapi.PodSandboxConfig{a: podA, b: podB} { // a is the hairpin
		id := n.start(sandbox, pod, config("main", `exec 3<>/dev/tcp/10.0.0.1/8080 && echo connected`, func(c *runtimeapi.ContainerConfig) { c.Command[0] = "/bin/bash" }))
		n.ends(id)
		if n.log(id) != "connected\n" {
			t.Errorf("from %s: %q", pod.Metadata.Name, n.log(id))
		}
	}
	_, err := n.RunPodSandbox(context.Background(), &runtimeapi.PodSandboxConfig{PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 1, HostPort: 8080}}}, "")
	if err == nil || !strings.Contains(err.Error(), "host ports 8080/tcp: one of them is another pod's") {
		t.Errorf("a port taken: %v", err)
	}
	must(t, n.RemovePodSandbox(context.Background(), a))
	if c, err := net.Dial("tcp", "10.0.0.1:8080"); err == nil {
		c.Close()
		t.Error("the port of a removed pod still leads somewhere")
	}
	n.pod(mapped)
}
