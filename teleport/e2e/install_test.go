package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history/metrics"
	"shakedown.dev/shakedown/teleport/agents"
	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/kube"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/probe"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// TestE2EInstall goes the whole way once. Its parts stand on each other, so the first that fails ends it.
func TestE2EInstall(t *testing.T) {
	w := bringUp(t)
	t.Cleanup(func() {
		for _, name := range []string{"agents", release} {
			if err := w.helm.Uninstall(name, time.Minute); err != nil {
				t.Error(err)
			}
		}
	})
	began := time.Now()
	values := w.install(t)
	t.Logf("installed after %s", since(began))
	wallet := w.wallet(t)
	client := w.ssh(t, wallet.Get("load-0"))
	nodes := w.agents(t, client)
	t.Logf("agents dialable after %s", since(began))

	proxies := w.pods(t, pods.Proxy)
	sid := w.sessions(t, client, proxies, nodes)
	w.metrics(t, proxies)
	w.prometheus(t, proxies)
	w.recording(t, wallet, sid)
	w.kubernetes(t, wallet.Get("load-1"), proxies[0])
	w.probe(t, client, proxies[1], nodes[0])
	w.upgrade(t, client, values, w.pods(t, pods.Proxy), nodes[0])
}

// probe measures what stopping a proxy does, and waits until the next one stands in its place.
func (w world) probe(t *testing.T, client *ssh.Client, proxy pods.Pod, node tctl.Node) {
	t.Helper()
	s, err := probe.StopProxy(t.Context(), probe.Options{Kube: w.kube, SSH: client, Proxy: proxy, Node: node.UUID})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stopping a proxy: %+v", s)
	if s.Dropped == 0 || s.Gone == 0 || s.Dropped > s.Gone+time.Second || s.Cut == "" {
		t.Errorf("the probe saw no cut before the pod was gone: %+v", s)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		ready := 0
		for _, p := range w.pods(t, pods.Proxy) {
			if p.Ready && !p.Terminating {
				ready++
			}
		}
		if ready == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d proxies are ready a minute after the probe", ready)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

func (w world) install(t *testing.T) helm.Values {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	values, added := lab.Fill(w.facts, w.author)
	for _, d := range added {
		t.Logf("%s: %v, since %s", d.Path, d.Value, d.Reason)
	}
	secret, err := lab.SelfSigned(w.facts.TLSSecret(), namespace, "e2e", w.facts.ProxyHost())
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.EnsureSecret(ctx, w.kube, secret); err != nil {
		t.Fatal(err)
	}
	if w.etcd.Namespace != "" {
		if err := w.etcd.Ensure(ctx, w.kube); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.etcd.Remove(context.Background(), w.kube); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := w.chart.Load(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rev, err := w.helm.Install(ctx, helm.Release{Name: release, Chart: c, Values: values, Timeout: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if rev.Number != 1 || rev.Status != "deployed" || rev.Labels[helm.RunLabel] != "e2e" {
		t.Errorf("revision %+v", rev)
	}
	return values
}

func (w world) wallet(t *testing.T) *tctl.Wallet {
	t.Helper()
	if err := w.tctl.EnsureRole(t.Context(), tctl.Role{Name: "load", Logins: []string{"root"}}); err != nil {
		t.Fatal(err)
	}
	users, err := w.tctl.EnsureUsers(t.Context(), "load", 2, "load")
	if err != nil {
		t.Fatal(err)
	}
	wallet, err := tctl.OpenWallet(t.Context(), tctl.WalletOptions{
		Tctl: w.tctl, Folder: t.TempDir() + "/identities", TTL: time.Hour, KubeCluster: w.facts.ProxyHost(), Users: users,
		Rekey: audit.Rekeyer(audit.Options{Dial: w.cluster.DialContext, Address: w.facts.AuthHost() + ":3025"}, w.facts.ProxyHost()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(wallet.Path("load-0")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("identity file: %v, %v", info, err)
	}
	t.Cleanup(func() {
		if err := wallet.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return wallet
}

func (w world) ssh(t *testing.T, id *identity.Identity) *ssh.Client {
	t.Helper()
	c, err := ssh.New(ssh.Options{Dial: w.cluster.DialContext, Identity: id, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w world) agents(t *testing.T, client *ssh.Client) []tctl.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := helm.Ref{Chart: helm.Agents}.Load(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fleet := agents.Fleet{Pods: 2, PerPod: 2, Image: w.image, Version: w.version, Labels: map[string]string{"fleet": "e2e"}}
	if _, err := w.helm.Install(ctx, helm.Release{Name: "agents", Chart: c, Values: fleet.Values(w.facts), Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	proxy := ssh.Proxy{Address: w.facts.ProxyHost() + ":443"}
	status, err := agents.Finder{Tctl: w.tctl, SSH: client, Proxy: proxy}.Wait(ctx, fleet.Count())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents.Named(status.Nodes, w.pods(t, pods.Agent)) {
		if a.Pod.UID == "" {
			t.Errorf("agent %s belongs to no pod", a.Host)
		}
	}
	return status.Nodes
}

func (w world) pods(t *testing.T, component string) []pods.Pod {
	t.Helper()
	name := release
	if component == pods.Agent {
		name = "agents"
	}
	all, err := pods.List(t.Context(), w.kube, namespace, name, component)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sessions opens one through each proxy pod by itself and ends it, and gives the id of the last.
func (w world) sessions(t *testing.T, client *ssh.Client, proxies []pods.Pod, nodes []tctl.Node) string {
	t.Helper()
	sid := ""
	for _, p := range proxies {
		s := w.open(t, client, p.Through(false), nodes[0].UUID)
		fmt.Fprintln(s, "echo sid=$SSH_SESSION_ID.; echo line $((1000*7)); exit 3")
		out, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		end := s.End(t.Context())
		if !end.Exited || end.Status != 3 || !strings.Contains(string(out), "line 7000") {
			t.Errorf("through %s: end %+v, output %q", p.Name, end, out)
		}
		if at := strings.LastIndex(string(out), "sid="); at >= 0 && len(out) >= at+40 {
			sid = string(out[at+4 : at+40])
		}
	}
	return sid
}

// open opens a terminal; a tunnel to that very proxy may take a moment longer than the first.
func (w world) open(t *testing.T, client *ssh.Client, proxy ssh.Proxy, node string) *ssh.Session {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second) // agents find a proxy that is new within a minute
	for {
		s, err := client.Open(t.Context(), proxy, ssh.Target{Node: node}, ssh.Start{PTY: true})
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (w world) metrics(t *testing.T, proxies []pods.Pod) {
	t.Helper()
	scraper := pods.NewScraper(w.cluster.DialContext, metrics.Names()...)
	for _, p := range proxies {
		samples, err := scraper.Pod(t.Context(), p)
		if err != nil || samples["process_resident_memory_bytes"] == 0 || samples["teleport_reverse_tunnels_connected"] == 0 {
			t.Errorf("%s: %v, %v", p.Name, samples, err)
		}
		if r, err := scraper.Readyz(t.Context(), p); r != pods.OK || err != nil {
			t.Errorf("%s: readyz %v, %v", p.Name, r, err)
		}
	}
}

func (w world) recording(t *testing.T, wallet *tctl.Wallet, sid string) {
	t.Helper()
	var log audit.Group // auths may keep their logs each on its own
	for _, p := range w.pods(t, pods.Auth) {
		one, err := audit.Open(audit.Options{
			Dial: w.cluster.DialContext, Address: net.JoinHostPort(p.IP, pods.AuthPort),
			Identity: func() *identity.Identity { return wallet.Get("load-0") },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		log = append(log, one)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		p, err := log.Play(t.Context(), sid)
		if err == nil {
			if !p.Started || !p.Ended || !strings.Contains(string(p.Output), "line 7000") {
				t.Errorf("recording of %s: started %t, ended %t, %q", sid, p.Started, p.Ended, p.Output)
			}
			return
		}
		if !errors.Is(err, audit.ErrNotFound) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func (w world) kubernetes(t *testing.T, id *identity.Identity, proxy pods.Pod) {
	t.Helper()
	c, err := kube.New(kube.Options{Dial: w.cluster.DialContext, Identity: id, Address: net.JoinHostPort(proxy.IP, pods.WebPort)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list, err := c.Kubernetes().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: pods.Selector("agents", pods.Agent)})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("list pods through the proxy: %v, %v", list, err)
	}
	target := kube.Target{Namespace: namespace, Pod: list.Items[0].Name, Container: "agent-0"}
	for _, spdy := range []bool{false, true} {
		s, err := c.Exec(ctx, target, kube.Start{Command: []string{"sh", "-c", "echo ready; read x; echo got $x; exit 5"}, SPDY: spdy})
		if err != nil {
			t.Errorf("exec, SPDY %t: %v", spdy, err)
			continue
		}
		if _, err := io.WriteString(s, "word\n"); err != nil {
			t.Error(err)
		}
		out, err := io.ReadAll(s)
		end := s.End()
		if !strings.Contains(string(out), "got word") || !end.Exited || end.Status != 5 {
			t.Errorf("exec, SPDY %t: %q, %v, %+v", spdy, out, err, end)
		}
		t.Logf("exec, SPDY %t: phases %v", spdy, s.Phases())
	}
	w.forward(t, ctx, c, list.Items[0].Name)
}

func (w world) forward(t *testing.T, ctx context.Context, c *kube.Client, pod string) {
	t.Helper()
	local, stop, _, err := c.PortForward(ctx, kube.Target{Namespace: namespace, Pod: pod}, 3000)
	if err != nil {
		t.Errorf("port-forward: %v", err)
		return
	}
	defer stop()
	if _, err := pods.NewScraper(nil).URL(ctx, "http://"+local+"/metrics"); err != nil {
		t.Errorf("through the port-forward: %v", err)
	}
}

// upgrade rolls the installation while a session is held through an old proxy, and expects it to be cut there.
func (w world) upgrade(t *testing.T, client *ssh.Client, values helm.Values, old []pods.Pod, node tctl.Node) {
	t.Helper()
	held := w.open(t, client, old[0].Through(false), node.UUID)
	cut := make(chan ssh.End, 1)
	go func() {
		_, _ = io.Copy(io.Discard, held)
		cut <- held.End(context.Background())
	}()
	ref := w.chart
	if w.next != w.version {
		ref.Version = w.next
	}
	c, err := ref.Load(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rev, err := w.helm.Upgrade(t.Context(), helm.Release{Name: release, Chart: c, Values: helm.Merge(values, w.over), Timeout: 4 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("upgraded to %s, revision %d, in %s", rev.Chart, rev.Number, since(began))
	select {
	case end := <-cut:
		t.Logf("the session through %s was cut after %s: %s at the %s", old[0].Name, since(began), end.Cut, end.Hop)
		if end.Exited || end.Hop != ssh.HopProxy {
			t.Errorf("it ended as %+v, want a cut at the proxy", end)
		}
	case <-time.After(90 * time.Second):
		t.Error("the session through the old proxy is still there 90 s after the upgrade")
	}
	for _, p := range w.pods(t, pods.Proxy) {
		if !p.Terminating && p.Revision == old[0].Revision {
			t.Errorf("%s is of the old revision", p.Name)
		}
		if !p.Terminating {
			w.open(t, client, p.Through(false), node.UUID)
		}
	}
}
